"""OVN: two databases, the daemon between them, and a switch on every node."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, parts
from ...parts.members import ordered_member
from ...plan import Context, Plan, Step, UnsupportedError
from . import exporter, recovery, relay, remote, remote_chassis, version
from .chassis import chassis
from .cluster_model import Integration
from .databases import NORTHBOUND, SOUTHBOUND, DatabaseGroup, members, open_ports, pods
from .entries import Entries, entries
from .model import OVNNetworkSpec
from .nodes import node_overrides
from .tls import TLS, certificates


def plan(ctx: Context[OVNNetworkSpec], neutron: Integration | None = None) -> Plan:
    """Return the steps of an OVNNetwork; with `neutron`, even an empty one, also those that only an OVNCluster has: an
    OVNChassis for each node, and Services. Published: northbound, southbound, southboundForNodes
    (`tcp:host:port[,tcp:host:port]`, or `ssl:…`), and clientSecret (keys `tls.crt`, `tls.key`, `ca.crt`) for these.
    """
    ctx = version.with_version(ctx)
    spec = ctx.spec
    if spec.external:
        return remote_chassis.plan(ctx, spec.external.secret_ref)
    if spec.image_profile == "kolla":
        _refuse_unsupported(ctx)
    forced_pod, tls = ordered_member(ctx, recovery.FORCE, pods(ctx)), certificates(ctx)
    upgrade = version.upgrade(ctx)
    gate = (upgrade.gate,) if upgrade else ()
    nb = members(ctx, NORTHBOUND, spec.northbound, forced_pod, tls, gate)
    sb = members(ctx, SOUTHBOUND, spec.southbound, forced_pod, tls, gate)
    northbound, southbound, nodes = nb.connection, sb.connection, relay.connection(ctx, sb, tls)
    relays = relay.relays(ctx, sb, tls, gate)
    records = [database.record for database in (nb, sb) if database.record]
    rebuilt = {"northboundRebuilt": nb.rebuilt_id, "southboundRebuilt": sb.rebuilt_id}
    is_changing = any(record.is_recovering or record.is_switching_to_tls for record in records)
    overrides = node_overrides(ctx) if neutron else None
    endpoints = entries(ctx, tls, neutron) if neutron else Entries()
    schemas = {NORTHBOUND.schema: northbound, SOUTHBOUND.schema: southbound}
    schema = (upgrade.schema(ctx, tls, schemas, (nb.members_step, sb.members_step)),) if upgrade else ()
    northd = _northd(ctx, nb, sb, tls, schema)
    # In an upgrade they come first, with the databases that run.
    before_nodes = () if upgrade else (sb.members_step, *relays, *_before_first_nodes(ctx, nb, northd))
    controllers = chassis(ctx, nodes, tls.nodes, overrides, after=before_nodes)
    return Plan(
        *parts.policies(ctx, *_ingress_rules(ctx, tls)),
        *tls.steps,
        *gate,
        nb,
        sb,
        *endpoints.steps,
        *schema,
        northd,
        *relays,
        controllers,
        *remote.remote_chassis(ctx, tls.nodes, controllers, tuple(relays)),
        endpoint=northbound,
        published={
            "northbound": northbound,
            "southbound": southbound,
            "southboundForNodes": nodes,
            **tls.published,
            **{k: v for k, v in rebuilt.items() if v},
            **(overrides.published if overrides else {}),
        },
        details={**endpoints.details, **(overrides.details if overrides else {})},
        members=[member for record in records for member in record.members],
        wake=ctx.now + recovery.SOON if is_changing else None,
    )


def _before_first_nodes(ctx: Context[OVNNetworkSpec], nb: DatabaseGroup, northd: Step) -> tuple[Step, ...]:
    """Return the step that the first programs on nodes wait for once a northbound database was restored: a switch and
    a controller that find an empty southbound database forget the flows of guests that ran on.
    """
    has_nodes = any(kind == "DaemonSet" for kind, _ in ctx.children)
    return (northd,) if nb.restored_id and not has_nodes else ()


def _refuse_unsupported(ctx: Context[OVNNetworkSpec]) -> None:
    """Raise UnsupportedError for what kolla's images cannot do."""
    member_count = max(ctx.spec.members(database.name) for database in (NORTHBOUND, SOUTHBOUND))
    if member_count != 1:
        text = f"kolla images do not support {member_count} database members; use 1"
        raise UnsupportedError("spec.replicas", text)
    if ctx.spec.relay.replicas:
        raise UnsupportedError("spec.relay.replicas", "kolla's images have no relay yet; use 0")
    if ctx.spec.tunnel_interface:
        raise UnsupportedError("spec.tunnelInterface", "kolla's images do not prepare an interface for tunnels yet")
    if ctx.is_ipv6:
        text = "kolla's OVN supports only IPv4, but this cluster prefers IPv6; use debian"
        raise UnsupportedError("spec.imageProfile", text)


def _ingress_rules(ctx: Context[OVNNetworkSpec], tls: TLS) -> list[parts.IngressRule]:
    """Return rules for members among themselves, for northd and relays, and for nodes, which use relays if any run."""
    databases, targets = (NORTHBOUND, SOUTHBOUND), ["relay" if relay.replicas(ctx, tls) else SOUTHBOUND.name]
    if tls.chassis and not relay.limits_nodes(ctx, tls):
        # Some nodes still use members.
        targets.append(SOUTHBOUND.name)
    return [
        *(parts.IngressRule(each.name, [each.raft_port, each.facts_port], "members") for each in databases),
        *(parts.IngressRule(each.name, [*open_ports(each, tls).values()], "service") for each in databases),
        *(
            parts.IngressRule(target, [*open_ports(SOUTHBOUND, tls).values()], "nodes")
            for target in (targets if ctx.spec.chassis.enabled else ())
        ),
        *remote.ingress_rules(ctx),
    ]


def _northd(
    ctx: Context[OVNNetworkSpec], nb: DatabaseGroup, sb: DatabaseGroup, tls: TLS, before: Sequence[Step]
) -> Step:
    """Return Deployment `<owner>-northd`; a lock in the southbound database decides which of the pods works."""
    entry = ctx.release["ovn-northd"]
    main = kube.Container(
        entry=entry,
        command=[*entry.command, *tls.options],
        env={"OVN_NB_DB": nb.connection, "OVN_SB_DB": sb.connection},
        mounts=(*kube.scratch("/run/ovn", "/tmp"), *tls.clients),  # noqa: S108
        ready=kube.Probe.of_worker(entry.commands["ready"]),
        memory="32Mi",
    )
    settings, configured = kube.settings(ctx.spec, ctx.spec.northd), ctx.spec.northd.replicas
    # Only one works; a third would never be needed.
    several = any(ctx.spec.members(database.name) > 1 for database in (NORTHBOUND, SOUTHBOUND))
    replicas = (2 if several else 1) if configured is None else configured
    target = kube.selector(ctx, "northd")
    annotations = recovery.restart_annotations([nb.rebuilt_id, sb.rebuilt_id])
    template = kube.pod(
        ctx, "northd", main, *exporter.containers(ctx, "northd", tls), settings=settings, annotations=annotations
    )
    template = kube.placed(template, settings, target, several=replicas > 1, replaceable=True)
    deployment = kube.workload(ctx, "Deployment", "northd", template, replicas=replicas)
    deployment = version.with_schemas(ctx, deployment)
    budget = [kube.disruption_budget(ctx, ctx.name("northd"), target)] if replicas > 1 else []
    step = Step(name="Northd", objects=(deployment, *budget), after=(nb.members_step, sb.members_step, *before))
    return exporter.with_monitors(ctx, step, "northd", tls)
