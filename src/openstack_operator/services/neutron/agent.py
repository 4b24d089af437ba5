"""The OVN metadata agent: one on every compute node, in the node's network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import agents, kube, oslo, parts
from ...parts.connect.ovn import OVN_TLS, ovn_defaults, ovn_mounts
from ...plan import Context, Step
from .config import agent_conf, metadata_api, network
from .full_names import full_names
from .model import NeutronSpec
from .ovn_sync import remark

NAME = "metadata-agent"

# The kernel's table and not the file: a socket file outlives its server. 00010000 is a listening socket.
LISTENS = kube.Probe.of_worker(["grep", "-qs", " 00010000 .*/var/lib/neutron/metadata_proxy$", "/proc/net/unix"])


def metadata_agent(
    ctx: Context[NeutronSpec], secret: str, *, after: tuple[Step, ...], api: Mapping[str, Any] | None = None
) -> tuple[Step, Step]:
    """Return the agent's configuration and its DaemonSet; `secret` is shared with Nova's metadata API, which is that of
    the spec, or the one that the options in `api` say.
    """
    options = agent_conf(ctx, secret, metadata_api(ctx) if api is None else api)
    conf = parts.written(
        ctx,
        {
            "neutron.conf": oslo.render(parts.options(ctx, options, defaults=ovn_defaults(network(ctx)))),
            "neutron_ovn_metadata_agent.ini": "# Every option is in neutron.conf.\n" + remark(ctx),
        },
        suffix=f"{NAME}-config",
        directory="/etc/neutron",
        extra_mounts=ovn_mounts(network(ctx), on_node=True),
    )
    entry, names = parts.release_entry(ctx, NAME), full_names(ctx)
    main = kube.Container(
        entry=entry,
        command=agents.shell("neutron/wait_for_switch.sh", words=[*names.wrapper, *entry.command]),
        env={"OS_DEFAULT__HOST": {"fieldRef": {"fieldPath": "spec.nodeName"}}, "TLS_FOLDER": OVN_TLS, **names.env},
        mounts=(
            *conf.mounts,
            kube.host("openvswitch", "/run/openvswitch"),
            # Shared with the node, so that a new agent finds the namespaces and their ports as the old one left them.
            kube.host("netns", "/run/netns", propagation="Bidirectional"),
            *kube.scratch("/var/lib/neutron", "/run/lock", "/tmp"),  # noqa: S108
        ),
        ready=LISTENS,
        memory="448Mi",
        privileged=True,
        root=True,
    )
    template = kube.pod(
        ctx,
        NAME,
        main,
        settings=kube.settings(ctx.spec.metadata_agent),
        node_selector=kube.COMPUTE,
        annotations={kube.CONFIG_DIGEST: conf.digest},
        hostNetwork=True,
    )
    daemons = kube.agents(ctx, NAME, template, "spec.metadataAgent.nodeSelector")
    return conf, Step(name="MetadataAgent", objects=(daemons,), after=(conf, *after))
