"""The two databases of OVN, clustered from their first member on, so that members can be added."""

from __future__ import annotations

from dataclasses import dataclass

from ... import kube, parts
from ...api import PodSettings
from ...plan import Context
from .model import OVNNetworkSpec


@dataclass(frozen=True)
class Database:
    """One of the two."""

    name: str
    condition: str
    client: int
    raft: int


NORTHBOUND = Database("nb", "Northbound", 6641, 6643)
SOUTHBOUND = Database("sb", "Southbound", 6642, 6644)


def connection(database: Database, members: parts.Members) -> str:
    """How clients reach a database: every member, since only one of them leads."""
    return ",".join(f"tcp:{host}:{database.client}" for host in members.hosts)


def members(ctx: Context[OVNNetworkSpec], database: Database, settings: PodSettings) -> parts.Members:
    """StatefulSet `<owner>-nb` or `<owner>-sb` behind a headless Service of the same name."""
    program = ctx.release[f"ovn-{database.name}"]
    service = ctx.name(database.name)
    hosts = parts.hosts(ctx, database.name, service, ctx.spec.replicas)
    ports = {"ovsdb": database.client, "raft": database.raft}
    main = kube.Container(
        component=program,
        env={
            **parts.POD_NAME,
            "OVN_ADDRESS": f"$(POD_NAME).{ctx.host(kube.fitting(service))}",
            # Only this member may create the cluster; a second one that did would be a second cluster.
            "OVN_SEED": hosts[0],
            "OVN_MEMBERS": ",".join(hosts),
        },
        ports=ports,
        mounts=(parts.volume("/var/lib/ovn", "ovn"), *kube.scratch("/run/ovn", "/tmp")),  # noqa: S108
        ready=kube.Probe(command=program.commands["ready"]),
        alive=kube.Probe(tcp=database.client),
        # Asked to, a leader hands over at once; told to by a signal, it leaves the others to wait for an election.
        lifecycle={"preStop": {"exec": {"command": list(program.commands["stop"])}}},
        memory="32Mi",
    )
    template = kube.pod(ctx, database.name, main, wanted=kube.settings(ctx.spec, settings))
    return parts.members(
        ctx,
        database.name,
        template,
        service=service,
        ports=ports,
        replicas=ctx.spec.replicas,
        storage=ctx.spec,
        condition=database.condition,
    )
