"""Relays: copies of the southbound database that nodes read, so that its members serve a few clients and not thousands.

A relay holds no disk and no vote: it follows a member, answers reads from memory and hands writes on (ovsdb(7), "Relay
Service Model"). Neutron's API and ovn-northd stay with the members, whose word is first.
"""

from __future__ import annotations

from ... import kube
from ...plan import Context, Step
from . import recovery
from .databases import SOUTHBOUND, Clustered, alive, open_ports
from .model import OVNNetworkSpec
from .tls import Secured


def connection(ctx: Context[OVNNetworkSpec], southbound: Clustered, tls: Secured) -> str:
    """What the programs of a node connect to: the relays, or each member where there are none."""
    if not ctx.spec.relay.replicas:
        return southbound.connection
    return tls.connection([ctx.host(ctx.name("relay"))], SOUTHBOUND.client, SOUTHBOUND.secure)


def relays(ctx: Context[OVNNetworkSpec], southbound: Clustered, tls: Secured) -> list[Step]:
    """Deployment and Service `<owner>-relay`, where any are wanted."""
    replicas = ctx.spec.relay.replicas
    if not replicas:
        return []
    program, settings = ctx.release["ovn-relay"], kube.settings(ctx.spec, ctx.spec.relay)
    ports, target = open_ports(SOUTHBOUND, tls), kube.selector(ctx, "relay")
    main = kube.Container(
        component=program,
        env={"OVN_SB_DB": southbound.connection, **({"OVN_PLAIN": "no"} if tls.own.required else {})},
        ports=ports,
        mounts=(*kube.scratch("/run/ovn", "/tmp"), *tls.mounts),  # noqa: S108
        ready=kube.Probe(command=program.commands["ready"]),
        alive=alive(program, ports),
        memory="64Mi",
    )
    # One that followed a former cluster would wait for it for ever.
    marks = recovery.marks([southbound.rebuilt])
    template = kube.pod(ctx, "relay", main, wanted=settings, annotations=marks)
    template = kube.placed(template, settings, target, several=replicas > 1, replaceable=True)
    wanted = kube.workload(ctx, "Deployment", "relay", template, replicas=replicas)
    service = kube.service(ctx, ctx.name("relay"), ports, target)
    budget = [kube.disruption_budget(ctx, ctx.name("relay"), target)] if replicas > 1 else []
    return [Step(name="Relay", objects=(service, wanted, *budget), after=(southbound.serving,))]
