"""OVN: two databases, the daemon between them, and a switch on every node."""

from __future__ import annotations

from ... import kube, parts
from ...plan import Context, NotBuilt, Plan, Step
from . import recovery, relay
from .chassis import chassis
from .cluster_model import Integration
from .databases import NORTHBOUND, SOUTHBOUND, Clustered, members, open_ports, pods
from .entries import Entries, entries
from .model import OVNNetworkSpec
from .nodes import single
from .tls import Secured, secured


def plan(ctx: Context[OVNNetworkSpec], neutron: Integration | None = None) -> Plan:
    """Everything an OVNNetwork is made of, and what an OVNCluster has besides where it says how Neutron comes (also if
    that is nothing): an OVNChassis for each node, and Services; published: northbound, southbound, southboundForNodes
    (`tcp:host:port[,tcp:host:port]`, or `ssl:…`), and clientSecret (keys `tls.crt`, `tls.key`, `ca.crt`) for these.
    """
    spec = ctx.spec
    most = max(spec.members(database.name) for database in (NORTHBOUND, SOUTHBOUND))
    if most != 1 and spec.image_profile == "kolla":
        raise NotBuilt("spec.replicas", f"databases of {most} members are not built for kolla yet; use 1")
    if spec.relay.replicas and spec.image_profile == "kolla":
        raise NotBuilt("spec.relay.replicas", "kolla's images have no relay yet; use 0")
    if spec.tunnel_interface and spec.image_profile == "kolla":
        raise NotBuilt("spec.tunnelInterface", "kolla's images do not prepare an interface for tunnels yet")
    forced, tls = recovery.forced(ctx, pods(ctx)), secured(ctx)
    nb = members(ctx, NORTHBOUND, spec.northbound, forced, tls)
    sb = members(ctx, SOUTHBOUND, spec.southbound, forced, tls)
    northbound, southbound, nodes = nb.connection, sb.connection, relay.connection(ctx, sb, tls)
    relays = relay.relays(ctx, sb, tls)
    records = [database.record for database in (nb, sb) if database.record]
    rebuilt = {"northboundRebuilt": nb.rebuilt, "southboundRebuilt": sb.rebuilt}
    moves = any(record.recovers or record.changing for record in records)
    own = single(ctx) if neutron else None
    ways = entries(ctx, tls, neutron) if neutron else Entries()
    return Plan(
        *parts.policies(ctx, *_ways(ctx, tls)),
        *tls.steps,
        nb,
        sb,
        *ways.steps,
        _northd(ctx, nb, sb, tls),
        *relays,
        chassis(ctx, nodes, tls, own, after=(sb.serving, *relays)),
        endpoint=northbound,
        published={
            "northbound": northbound,
            "southbound": southbound,
            "southboundForNodes": nodes,
            **tls.published,
            **{k: v for k, v in rebuilt.items() if v},
            **(own.published if own else {}),
        },
        details={**ways.details, **(own.details if own else {})},
        members=[member for record in records for member in record.members],
        wake=ctx.now + recovery.SOON if moves else None,
    )


def _ways(ctx: Context[OVNNetworkSpec], tls: Secured) -> list[parts.Way]:
    """Members speak with each other, northd and relays with them, and nodes with the relays if there are any."""
    both, read = (NORTHBOUND, SOUTHBOUND), "relay" if relay.replicas(ctx, tls) else SOUTHBOUND.name
    return [
        *(parts.Way(each.name, [each.raft, each.facts], "members") for each in both),
        *(parts.Way(each.name, [*open_ports(each, tls).values()], "service") for each in both),
        *([parts.Way(read, [*open_ports(SOUTHBOUND, tls).values()], "nodes")] if ctx.spec.chassis.enabled else ()),
    ]


def _northd(ctx: Context[OVNNetworkSpec], nb: Clustered, sb: Clustered, tls: Secured) -> Step:
    """Deployment `<owner>-northd`; the pods agree through a lock in the southbound database on who works."""
    program = ctx.release["ovn-northd"]
    main = kube.Container(
        component=program,
        command=[*program.command, *tls.options],
        env={"OVN_NB_DB": nb.connection, "OVN_SB_DB": sb.connection},
        mounts=(*kube.scratch("/run/ovn", "/tmp"), *tls.clients),  # noqa: S108
        ready=kube.Probe.of_worker(program.commands["ready"]),
        memory="32Mi",
    )
    settings, own = kube.settings(ctx.spec, ctx.spec.northd), ctx.spec.northd.replicas
    # Only one works; a third would never be needed.
    several = any(ctx.spec.members(database.name) > 1 for database in (NORTHBOUND, SOUTHBOUND))
    replicas = (2 if several else 1) if own is None else own
    target = kube.selector(ctx, "northd")
    marks = recovery.marks([nb.rebuilt, sb.rebuilt])
    template = kube.pod(ctx, "northd", main, wanted=settings, annotations=marks)
    template = kube.placed(template, settings, target, several=replicas > 1, replaceable=True)
    wanted = kube.workload(ctx, "Deployment", "northd", template, replicas=replicas)
    budget = kube.disruption_budget(ctx, ctx.name("northd"), target)
    return Step(name="Northd", objects=(wanted, budget) if replicas > 1 else (wanted,), after=(nb.serving, sb.serving))
