"""OVN: two databases, the daemon between them, and a switch on every node."""

from __future__ import annotations

from ... import kube
from ...plan import Context, NotBuilt, Plan, Step
from . import raft
from .chassis import chassis
from .databases import NORTHBOUND, SOUTHBOUND, members
from .model import OVNNetworkSpec


def plan(ctx: Context[OVNNetworkSpec]) -> Plan:
    """Everything an OVNNetwork is made of; published: northbound, southbound (`tcp:host:port[,tcp:host:port]`)."""
    spec = ctx.spec
    if spec.replicas != 1 and spec.image_profile == "kolla":
        raise NotBuilt("spec.replicas", f"databases of {spec.replicas} members are not built for kolla yet; use 1")
    if spec.tunnel_interface and spec.image_profile == "kolla":
        raise NotBuilt("spec.tunnelInterface", "kolla's images do not prepare an interface for tunnels yet")
    nb = members(ctx, NORTHBOUND, spec.northbound)
    sb = members(ctx, SOUTHBOUND, spec.southbound)
    northbound, southbound = nb.connection, sb.connection
    return Plan(
        nb,
        sb,
        _northd(ctx, northbound, southbound, after=(nb.serving, sb.serving)),
        chassis(ctx, southbound, after=(sb.serving,)),
        endpoint=northbound,
        published={"northbound": northbound, "southbound": southbound},
    )


def _northd(ctx: Context[OVNNetworkSpec], northbound: str, southbound: str, *, after: tuple[Step, ...]) -> Step:
    """Deployment `<owner>-northd`; the pods agree through a lock in the southbound database on who works."""
    program = ctx.release["ovn-northd"]
    main = kube.Container(
        component=program,
        env={"OVN_NB_DB": northbound, "OVN_SB_DB": southbound},
        mounts=kube.scratch("/run/ovn", "/tmp"),  # noqa: S108
        ready=kube.Probe(command=program.commands["ready"]),
        memory="32Mi",
    )
    settings, own = kube.settings(ctx.spec, ctx.spec.northd), ctx.spec.northd.replicas
    # Only one works; a third would never be needed.
    replicas = min(ctx.spec.replicas, 2) if own is None else own
    if ctx.spec.replicas > 1 and settings.affinity is None:
        settings = settings.model_copy(update={"affinity": raft.spread("northd", ctx)})
    template = kube.pod(ctx, "northd", main, wanted=settings)
    wanted = kube.workload(ctx, "Deployment", "northd", template, replicas=replicas)
    budget = kube.disruption_budget(ctx, ctx.name("northd"), kube.selector(ctx, "northd"))
    return Step(name="Northd", objects=(wanted, budget) if replicas > 1 else (wanted,), after=after)
