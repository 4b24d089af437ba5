"""Relays: copies of the southbound database that nodes read, so that its members serve a few clients and not thousands.

A relay holds no disk and no vote: it follows a member, answers reads from memory and hands writes on (ovsdb(7), "Relay
Service Model"). Neutron's API and ovn-northd stay with the members, which have each change first. With TLS, nodes
use relays alone, since these limit what a node may write, and members do not trust its certificate (decision 0067).
"""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube
from ...parts.secrets.node_certificates import NODE_VOLUME
from ...plan import Context, Object, State, Step, Verdict
from . import recovery
from .databases import SOUTHBOUND, DatabaseGroup, alive, listen_env, open_ports
from .model import OVNNetworkSpec
from .tls import TLS


def replicas(ctx: Context[OVNNetworkSpec], tls: TLS) -> int:
    """Return the number of relays. If unset, it is none; if nodes have certificates, it is one, or two if the database
    has several members.
    """
    desired = ctx.spec.relay.replicas
    if not tls.chassis:
        return desired or 0
    return max(1, desired) if desired is not None else min(2, ctx.spec.members(SOUTHBOUND.name))


def connection(ctx: Context[OVNNetworkSpec], southbound: DatabaseGroup, tls: TLS) -> str:
    """Return the addresses for the programs of a node: of the relays, or of each member if no relay runs."""
    if not replicas(ctx, tls):
        return southbound.connection
    return tls.connection([ctx.host(ctx.name("relay"))], SOUTHBOUND.client_port, SOUTHBOUND.tls_port)


def relays(
    ctx: Context[OVNNetworkSpec], southbound: DatabaseGroup, tls: TLS, before: Sequence[Step] = ()
) -> list[Step]:
    """Return Deployment and Service `<owner>-relay`, if any relay should run."""
    count = replicas(ctx, tls)
    if not count:
        return []
    entry, settings = ctx.release["ovn-relay"], kube.settings(ctx.spec, ctx.spec.relay)
    ports, target = open_ports(SOUTHBOUND, tls), kube.selector(ctx, "relay")
    main = kube.Container(
        entry=entry,
        env={
            "OVN_SB_DB": southbound.connection,
            **({"OVN_PLAIN": "no"} if tls.server.required else {}),
            **listen_env(ctx),
            **({"OVN_ROLE": "ovn-controller"} if limits_nodes(ctx, tls) else {}),
        },
        ports=ports,
        mounts=(*kube.scratch("/run/ovn", "/tmp"), *tls.on_relays),  # noqa: S108
        ready=kube.Probe(command=entry.commands["ready"]),
        alive=alive(entry, ports),
        memory="64Mi",
        cpu="5m",
    )
    # A relay that followed a former cluster would wait for it without end.
    annotations = recovery.restart_annotations([southbound.rebuilt_id])
    template = kube.pod(ctx, "relay", main, settings=settings, annotations=annotations)
    template = kube.placed(template, settings, target, several=count > 1, replaceable=True)
    deployment = kube.workload(ctx, "Deployment", "relay", template, replicas=count)
    service = kube.service(ctx, ctx.name("relay"), ports, target)
    budget = [kube.disruption_budget(ctx, ctx.name("relay"), target)] if count > 1 else []
    after = (southbound.members_step, *([tls.relay] if tls.relay else []), *before)
    # Nodes do not change to relays that do not serve.
    barrier = tls.chassis is not None
    relay = Step(name="Relay", objects=(service, deployment, *budget), after=after, barrier=barrier)
    return [relay, *_note(ctx)]


def _note(ctx: Context[OVNNetworkSpec]) -> list[Step]:
    """Return a message if the spec has no relay, though nodes need one."""
    if ctx.spec.relay.replicas != 0:
        return []
    text = "spec.relay.replicas: 0 is used as 1, since nodes need a relay with TLS; set 1 or more, or remove it"
    return [Step(name="Relay", verdict=Verdict(State.READY, text))]


def limits_nodes(ctx: Context[OVNNetworkSpec], tls: TLS) -> bool:
    """Return True once relays apply the role of nodes: in a new cloud from the beginning, in one that runs after all
    nodes show certificates of their own, since the role refuses the certificate that they shared before.
    """
    if tls.chassis is None:
        return False
    live = ctx.live("Deployment", "relay")
    if live and any(each["name"] == "OVN_ROLE" for each in live["spec"]["template"]["spec"]["containers"][0]["env"]):
        return True
    # Controllers of earlier versions of this operator are beside the switch, also in pods that are to be replaced.
    daemons = [live for name in ("controller", "gateway", "chassis") if (live := ctx.live("DaemonSet", name))]
    # In a new cloud, which has no relay yet, a switch that starts says nothing of controllers.
    chosen = [each for each in daemons if live or _has_controller(each)]
    return all((_shows_own(each) or not _has_controller(each)) and not kube.Rollout(each).is_running for each in chosen)


def _has_controller(daemons: Object) -> bool:
    return any(each["name"] == "ovn-controller" for each in daemons["spec"]["template"]["spec"]["containers"])


def _shows_own(daemons: Object) -> bool:
    volumes = daemons["spec"]["template"]["spec"].get("volumes") or ()
    return any(volume["name"] == NODE_VOLUME for volume in volumes)
