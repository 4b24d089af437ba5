"""Relays: copies of the southbound database that nodes read, so that its members serve a few clients and not thousands.

A relay holds no disk and no vote: it follows a member, answers reads from memory and hands writes on (ovsdb(7), "Relay
Service Model"). Neutron's API and ovn-northd stay with the members, whose word is first. With TLS, nodes reach relays
alone, since these let a node write the rows of its own chassis only, and members do not trust its certificate
(decision 0067).
"""

from __future__ import annotations

from ... import kube
from ...plan import Context, Step
from . import recovery
from .databases import SOUTHBOUND, Clustered, alive, open_ports
from .model import OVNNetworkSpec
from .tls import Secured


def replicas(ctx: Context[OVNNetworkSpec], tls: Secured) -> int:
    """How many relays run; unset it is none, but where nodes have certificates one, or two where the database has
    several members.
    """
    wanted = ctx.spec.relay.replicas
    if not tls.chassis:
        return wanted or 0
    return max(1, wanted) if wanted is not None else min(2, ctx.spec.members(SOUTHBOUND.name))


def connection(ctx: Context[OVNNetworkSpec], southbound: Clustered, tls: Secured) -> str:
    """What the programs of a node connect to: the relays, or each member where there are none."""
    if not replicas(ctx, tls):
        return southbound.connection
    return tls.connection([ctx.host(ctx.name("relay"))], SOUTHBOUND.client, SOUTHBOUND.secure)


def relays(ctx: Context[OVNNetworkSpec], southbound: Clustered, tls: Secured) -> list[Step]:
    """Deployment and Service `<owner>-relay`, where any are wanted."""
    count = replicas(ctx, tls)
    if not count:
        return []
    program, settings = ctx.release["ovn-relay"], kube.settings(ctx.spec, ctx.spec.relay)
    ports, target = open_ports(SOUTHBOUND, tls), kube.selector(ctx, "relay")
    main = kube.Container(
        component=program,
        env={
            "OVN_SB_DB": southbound.connection,
            **({"OVN_PLAIN": "no"} if tls.own.required else {}),
            **({"OVN_ROLE": "ovn-controller"} if tls.chassis else {}),
        },
        ports=ports,
        mounts=(*kube.scratch("/run/ovn", "/tmp"), *tls.on_relays),  # noqa: S108
        ready=kube.Probe(command=program.commands["ready"]),
        alive=alive(program, ports),
        memory="64Mi",
    )
    # One that followed a former cluster would wait for it for ever.
    marks = recovery.marks([southbound.rebuilt])
    template = kube.pod(ctx, "relay", main, wanted=settings, annotations=marks)
    template = kube.placed(template, settings, target, several=count > 1, replaceable=True)
    wanted = kube.workload(ctx, "Deployment", "relay", template, replicas=count)
    service = kube.service(ctx, ctx.name("relay"), ports, target)
    budget = [kube.disruption_budget(ctx, ctx.name("relay"), target)] if count > 1 else []
    before = [southbound.serving, *([tls.relay] if tls.relay else [])]
    return [Step(name="Relay", objects=(service, wanted, *budget), after=tuple(before))]
