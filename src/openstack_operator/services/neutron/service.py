"""Neutron: the Networking API on ML2/OVN, its maintenance worker, and an agent that hands instances their metadata."""

from __future__ import annotations

from ... import kube, oslo, parts
from ...plan import Context, NotBuilt, Plan, Step
from .agent import metadata_agent
from .config import DEFAULTS, neutron_conf, patience
from .model import NeutronSpec
from .refill import refill, remark

WORKER = "ovn-maintenance-worker"


def plan(ctx: Context[NeutronSpec]) -> Plan:
    """Everything a Neutron is made of; published: internalURL, publicURL, metadataSecret (key `metadata`).

    OVN alone needs neither RPC server nor periodic workers: agents speak to its databases, not to Neutron.
    """
    if ctx.spec.mechanism != "ovn":
        raise NotBuilt("spec.mechanism", f"{ctx.spec.mechanism} is not built yet; use ovn")
    base = parts.foundation(ctx, "metadata")
    ovn = parts.requires(ctx, "OVNConnected", ctx.spec.ovn.ovn_network_ref)
    defaults, more = oslo.merge(DEFAULTS, patience(ctx)), {"ml2_conf.ini": _EMPTY_ML2 + remark(ctx)}
    beside = parts.ovn_mounts(ctx.refs[ctx.spec.ovn.ovn_network_ref])
    conf = parts.config(ctx, "neutron.conf", neutron_conf(ctx, base), defaults=defaults, more=more, beside=beside)
    ml2 = kube.files("config", conf.secret, "/etc/neutron/plugins/ml2", "ml2_conf.ini")
    sync = parts.job(
        ctx,
        "db-sync",
        [*parts.program(ctx, "api").commands["manage"], "upgrade", "heads"],
        conf,
        after=base.schema,
        condition="Schema",
        mounts=ml2,
    )
    filled = refill(ctx, conf, after=(ovn, sync), mounts=ml2)
    needed = (*base.steps, ovn, sync, *filled)
    # OVN's events are shared out among all processes: what falls to one that ended is lost for a while.
    # It is the last to be up where all begin at once: after it started it looks at every port OVN tells of.
    workers = parts.Workers(threads=1, as_needed=False, cpu="50m")
    api = parts.api(
        ctx, "api", 9696, conf, settings=ctx.spec.api, after=needed, memory="224Mi", mounts=ml2, workers=workers
    )
    entry = parts.catalog(ctx, "network", "Networking", api, after=(*base.steps, api))
    agents: list[Step] = []
    # Where the release does not list it, the API does its work.
    if f"neutron-{WORKER}" in ctx.release:
        agents.append(_maintenance_worker(ctx, conf, after=needed, mounts=ml2))
    if ctx.spec.metadata_agent.enabled:
        agents += metadata_agent(ctx, base.credentials["metadata"], after=(base.credentials, ovn))
    return Plan(
        *base.steps,
        ovn,
        conf,
        sync,
        *filled,
        api,
        *agents,
        entry,
        endpoint=api.public,
        published={**api.published, "metadataSecret": base.credentials.secret},
    )


# The programs read this file after neutron.conf, and the image's own would win.
_EMPTY_ML2 = "# Every option is in neutron.conf.\n"


def _maintenance_worker(
    ctx: Context[NeutronSpec], conf: parts.Config, *, after: tuple[Step, ...], mounts: list[kube.Mount]
) -> Step:
    """A worker that is ready when it has an established (01) connection to the northbound database."""
    northbound = ctx.refs[ctx.spec.ovn.ovn_network_ref]["northbound"]
    port = int(northbound.split(",")[0].rpartition(":")[2])
    connected = kube.Probe(command=["grep", "-qs", f":{port:04X} 01 ", "/proc/net/tcp", "/proc/net/tcp6"], period=15)
    return parts.worker(
        ctx,
        WORKER,
        conf,
        settings=ctx.spec.ovn_maintenance_worker,
        after=after,
        ready=connected,
        memory="224Mi",
        mounts=mounts,
    )
