"""The two databases of OVN, clustered from their first member on, so that members can be added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ... import kube, parts
from ...plan import Component, Context, Group, Step
from . import raft, recovery
from .model import Members, OVNNetworkSpec
from .tls import Secured

_MOST = 9
"""Members a database can have."""


@dataclass(frozen=True)
class Database:
    """One of the two."""

    name: str
    schema: str
    condition: str
    client: int
    secure: int
    """For clients with a certificate."""
    raft: int
    facts: int
    """Where a member says what it holds, as JSON over HTTP."""


NORTHBOUND = Database("nb", "OVN_Northbound", "Northbound", 6641, 16641, 6643, recovery.PORTS["nb"])
SOUTHBOUND = Database("sb", "OVN_Southbound", "Southbound", 6642, 16642, 6644, recovery.PORTS["sb"])


@dataclass(frozen=True)
class Clustered(Group):
    """The steps that make a database."""

    connection: str
    """How clients reach it: every member, since only one of them leads."""

    record: raft.Record | None
    """What is kept of its members; None for a single one."""

    @property
    def rebuilt(self) -> str:
        """Identity of its cluster if it is not the first one, else empty."""
        return self.record.rebuilt if self.record else ""

    @property
    def serving(self) -> Step:
        """The step that is ready when every member is."""
        return next(step for step in self.steps if isinstance(step, parts.Members))


def pods(ctx: Context[OVNNetworkSpec]) -> list[str]:
    """The members of both databases where there are several, by the names of their pods."""
    sizes = {database.name: ctx.spec.members(database.name) for database in (NORTHBOUND, SOUTHBOUND)}
    hosts = [parts.hosts(ctx, name, ctx.name(name), size) for name, size in sizes.items() if size > 1]
    return [recovery.pod_of(host) for group in hosts for host in group]


def members(
    ctx: Context[OVNNetworkSpec], database: Database, settings: Members, forced: str, tls: Secured
) -> Clustered:
    """StatefulSet `<owner>-nb` or `<owner>-sb` behind a headless Service of the same name, and the record of its
    members once there are several. `forced` is the pod that is to go on with what it has.
    """
    service, name = ctx.name(database.name), database.name
    hosts = parts.hosts(ctx, name, service, _MOST)
    live = ctx.children.get(("StatefulSet", kube.fitting(ctx.name(name), kube.STATEFUL_SET_LIMIT)))
    record = raft.record(ctx, name, hosts, live, forced, tls)
    wanted = kube.settings(ctx.spec, settings)
    own = settings.model_dump(include={"storage_size", "storage_class_name"}, exclude_none=True)
    ports = {**open_ports(database, tls), "raft": database.raft} | ({"facts": database.facts} if record else {})
    template = kube.pod(ctx, name, _container(ctx, database, hosts[0], record, ports, tls), wanted=wanted)
    # From the record on, not from the second pod: a template that changed then would restart the first one as it joins.
    several, target = record is not None, kube.selector(ctx, name)
    template = kube.placed(template, wanted, target, several=several, replaceable=False)
    if record:
        template["metadata"]["labels"][kube.WATCHED] = "true"
    step = parts.members(
        ctx,
        name,
        template,
        service=service,
        ports=ports,
        replicas=record.size.pods if record else 1,
        storage=ctx.spec.model_copy(update=own),
        settings=wanted,
        path=f"spec.{database.condition.lower()}" if settings.storage_size else "spec",
        condition=database.condition,
        after=(*((record,) if record else ()), *tls.own.pending),
    )
    if record:
        step = replace(step, verdict=record.verdict_of_members)
    connection = tls.connection(hosts[: ctx.spec.members(name)], database.client, database.secure)
    return Clustered(database.condition, [record, step] if record else [step], connection, record)


def open_ports(database: Database, tls: Secured) -> dict[str, int]:
    """By name, those that clients may use."""
    plain = {} if tls.own.required else {"ovsdb": database.client}
    return {**plain, **({"ovsdb-tls": database.secure} if tls.own else {})}


def alive(program: Component, ports: Mapping[str, int]) -> kube.Probe:
    """Whether a server takes connections. One that waits for the other members serves no database yet, but facts."""
    return kube.Probe.of_connection(ports.get("facts", ports.get("ovsdb", 0)), program.commands.get("alive", ()))


def _container(
    ctx: Context[OVNNetworkSpec],
    database: Database,
    first: str,
    record: raft.Record | None,
    ports: dict[str, int],
    tls: Secured,
) -> kube.Container:
    program = ctx.release[f"ovn-{database.name}"]
    command, ready, stop = program.command, program.commands["ready"], program.commands["stop"]
    shared: list[kube.Mount] = []
    if record:
        command = program.commands["cluster"]
        words = (database.name, database.schema)
        ready, stop = raft.script(raft.READY, *words), raft.script(raft.STOP, *words, *stop)
        shared = [kube.folder("raft", record.secret, raft.FOLDER)]
    return kube.Container(
        component=program,
        command=command,
        env={
            **parts.POD_NAME,
            "OVN_ADDRESS": f"$(POD_NAME).{ctx.host(kube.fitting(ctx.name(database.name)))}",
            # Only this member may create the cluster; a second one that did would be a second cluster.
            "OVN_SEED": record.env("seed") if record else first,
            "OVN_MEMBERS": record.env("members") if record else first,
            **({"OVN_PLAIN": "no"} if tls.own.required else {}),
        },
        ports=ports,
        mounts=(parts.volume("/var/lib/ovn", "ovn"), *kube.scratch("/run/ovn", "/tmp"), *shared, *tls.mounts),  # noqa: S108
        ready=kube.Probe(command=ready),
        alive=alive(program, ports),
        # Asked to, a leader hands over at once; told to by a signal, it leaves the others to wait for an election.
        lifecycle={"preStop": {"exec": {"command": list(stop)}}},
        memory="64Mi" if record else "32Mi",
        cpu="50m",
    )
