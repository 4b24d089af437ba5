"""The two databases of OVN, clustered from their first member on, so that members can be added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ... import kube, parts
from ...parts.members import POD_NAME, volume
from ...plan import Context, Group, ReleaseEntry, Step
from . import exporter, raft, recovery
from .model import Members, OVNNetworkSpec
from .tls import TLS

_STATE = "/var/lib/ovn"
"""Folder of a member's database."""


@dataclass(frozen=True)
class Database:
    """The northbound or the southbound database."""

    name: str
    schema: str
    condition: str
    client_port: int
    tls_port: int
    """Port for clients with a certificate."""
    raft_port: int
    facts_port: int
    """Port at which a member reports its state, as JSON over HTTP."""


NORTHBOUND = Database("nb", "OVN_Northbound", "Northbound", 6641, 16641, 6643, recovery.PORTS["nb"])
SOUTHBOUND = Database("sb", "OVN_Southbound", "Southbound", 6642, 16642, 6644, recovery.PORTS["sb"])


@dataclass(frozen=True)
class DatabaseGroup(Group):
    """The steps of a database."""

    connection: str
    """Addresses for clients: every member's, since only one of them leads."""

    record: raft.Record | None
    """The record of its members; None for a single one."""

    members_step: Step
    """The step that is ready when every member is."""

    restored_id: str
    """Identity of the cluster that a restore has made; empty without one."""

    @property
    def rebuilt_id(self) -> str:
        """Return the identity of its cluster, or an empty string for the first cluster."""
        return (self.record.rebuilt_id if self.record else "") or self.restored_id


def pods(ctx: Context[OVNNetworkSpec]) -> list[str]:
    """Return the names of the members' pods, of each database that has several members."""
    clusters = [parts.cluster(ctx, database.name) for database in (NORTHBOUND, SOUTHBOUND)]
    sizes = [ctx.spec.members(cluster.component) for cluster in clusters]
    return [pod for cluster, size in zip(clusters, sizes, strict=True) if size > 1 for pod in cluster.pod_names(size)]


def members(
    ctx: Context[OVNNetworkSpec],
    database: Database,
    settings: Members,
    forced_pod: str,
    tls: TLS,
    before: Sequence[Step] = (),
) -> DatabaseGroup:
    """Return StatefulSet `<owner>-nb` or `<owner>-sb` behind a headless Service of the same name, and the record of its
    members once there are several. `forced_pod` is the pod that has to continue with its data.
    """
    name, target, pod_settings = database.name, kube.selector(ctx, database.name), kube.settings(ctx.spec, settings)
    storage = settings.model_dump(include={"storage_size", "storage_class_name"}, exclude_none=True)
    cluster = parts.cluster(
        ctx,
        name,
        ctx.name(name),
        settings=pod_settings,
        storage=ctx.spec.model_copy(update=storage),
        path=f"spec.{database.condition.lower()}" if settings.storage_size else "spec",
    )
    record = raft.record(ctx, cluster, forced_pod, tls)
    ports = {**open_ports(database, tls), "raft": database.raft_port}
    ports |= {"facts": database.facts_port} if record else {}
    main = _container(ctx, database, cluster, record, ports, tls)
    template = cluster.template(main, *exporter.containers(ctx, name, tls), watched=record is not None)
    # From the record on, not from the second pod: a template that changed then would restart the first one as it joins.
    template = kube.placed(template, pod_settings, target, several=bool(record), replaceable=False)
    step = cluster.step(
        template,
        ports=ports,
        replicas=record.size.pods if record else 1,
        condition=database.condition,
        after=(*((record,) if record else ()), *tls.server.pending, *before),
    )
    step = exporter.with_monitors(ctx, step, name, tls)
    if record:
        step = replace(step, verdict=record.verdict_of_members)
    connection = tls.connection(cluster.hosts(ctx.spec.members(name)), database.client_port, database.tls_port)
    restored_id = recovery.identity(cluster.ctx.secret(f"{name}-restored"))
    steps = [*([record] if record else []), step]
    if restored_id:
        secret = cluster.lasting_secret(f"{name}-restored", {"cluster": restored_id})
        steps.insert(0, Step(name="Restored", objects=(secret,)))
    return DatabaseGroup(database.condition, steps, connection, record, step, restored_id)


def open_ports(database: Database, tls: TLS) -> dict[str, int]:
    """Return the ports that clients may use, by name."""
    plain = {} if tls.server.required else {"ovsdb": database.client_port}
    return {**plain, **({"ovsdb-tls": database.tls_port} if tls.server else {})}


def listen_env(ctx: Context[OVNNetworkSpec]) -> dict[str, str]:
    """Return the address at which a server of the image listens, if that is another than its default."""
    return {"OVN_LISTEN": f"[{ctx.any_address}]"} if ctx.is_ipv6 else {}


def alive(entry: ReleaseEntry, ports: Mapping[str, int]) -> kube.Probe:
    """Return a probe of connections. A server that waits for other members serves no database yet, but its facts."""
    return kube.Probe.of_connection(ports.get("facts", ports.get("ovsdb", 0)), entry.commands.get("alive", ()))


def _container(
    ctx: Context[OVNNetworkSpec],
    database: Database,
    cluster: parts.Cluster,
    record: raft.Record | None,
    ports: dict[str, int],
    tls: TLS,
) -> kube.Container:
    entry = ctx.release[f"ovn-{database.name}"]
    [first_host] = cluster.hosts(1)
    command, ready, stop = entry.command, entry.commands["ready"], entry.commands["stop"]
    shared: list[kube.Mount] = []
    if record:
        command = entry.commands["cluster"]
        words = (database.name, database.schema)
        ready, stop = raft.ready(*words), raft.stop(*words, *stop)
        shared = [kube.folder("raft", record.secret, raft.FOLDER)]
    return kube.Container(
        entry=entry,
        command=command,
        env={
            **POD_NAME,
            "OVN_ADDRESS": cluster.own_host,
            # Only this member may create the cluster; a second one that did would be a second cluster.
            "OVN_SEED": record.env("seed") if record else first_host,
            "OVN_MEMBERS": record.env("members") if record else first_host,
            **({"OVN_PLAIN": "no"} if tls.server.required else {}),
            **listen_env(ctx),
            **({"RECORD_FOLDER": raft.FOLDER, "STATE_FOLDER": _STATE} if record else {}),
        },
        ports=ports,
        mounts=(volume(_STATE, "ovn"), *kube.scratch("/run/ovn", "/tmp"), *shared, *tls.mounts),  # noqa: S108
        ready=kube.Probe(command=ready),
        alive=alive(entry, ports),
        # On this command a leader hands over at once; on a signal, the other members would wait for an election.
        lifecycle={"preStop": {"exec": {"command": list(stop)}}},
        memory="64Mi" if record else "32Mi",
        cpu="50m",
    )
