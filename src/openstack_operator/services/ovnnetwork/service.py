"""OVN: two databases, the daemon between them, and a switch on every node."""

from __future__ import annotations

from ... import kube
from ...plan import Context, NotBuilt, Plan, Step
from .chassis import chassis
from .databases import NORTHBOUND, SOUTHBOUND, connection, members
from .model import OVNNetworkSpec


def plan(ctx: Context[OVNNetworkSpec]) -> Plan:
    """Everything an OVNNetwork is made of; published: northbound, southbound (`tcp:host:port[,tcp:host:port]`)."""
    spec = ctx.spec
    if spec.replicas != 1:
        raise NotBuilt("spec.replicas", f"databases of {spec.replicas} members are not built yet; use 1")
    nb = members(ctx, NORTHBOUND, spec.northbound)
    sb = members(ctx, SOUTHBOUND, spec.southbound)
    northbound, southbound = connection(NORTHBOUND, nb), connection(SOUTHBOUND, sb)
    return Plan(
        nb,
        sb,
        _northd(ctx, northbound, southbound, after=(nb, sb)),
        chassis(ctx, southbound, after=(sb,)),
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
    template = kube.pod(ctx, "northd", main, wanted=kube.settings(ctx.spec, ctx.spec.northd))
    replicas = kube.replicas(ctx.spec.replicas, ctx.spec.northd)
    wanted = kube.workload(ctx, "Deployment", "northd", template, replicas=replicas)
    return Step(name="Northd", objects=(wanted,), after=after)
