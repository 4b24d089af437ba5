"""Octavia: a schema, an API with a driver agent in each of its pods, and the purge of deleted load balancers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ... import agents, kube, parts
from ...parts.connect.broker_move import with_moves
from ...parts.connect.ovn import ovn_mounts, rebuilt_databases
from ...parts.run.purge import purge
from ...plan import Context, Plan, Step
from .amphora import PASSWORD, amphora_steps, provider
from .config import PORT, SOCKETS, defaults, network, octavia_conf
from .model import OctaviaSpec

_SERVICE_TYPE = "load-balancer"
_AGENT = "driver-agent"
_PROGRAM = "octavia-driver-agent"
_SOCKETS = SOCKETS.removeprefix("/var")
# Each process has a copy of OVN's load balancers, and works on requests after it answered them: none may end, as others
# do, once they have nothing to do.
_WORKERS = parts.Workers(processes=2, threads=4, as_needed=False)


@with_moves
def plan(ctx: Context[OctaviaSpec]) -> Plan:
    """Return everything that an Octavia consists of; published: internalURL, publicURL."""
    base = parts.foundation(ctx, *([PASSWORD] if _has_broker(ctx.spec) else []), service_type=_SERVICE_TYPE)
    amphora = provider(ctx, base)
    ovn = Step(name="OVNConnected", verdict=network(ctx).verdict)
    fixed_options, certificate = octavia_conf(ctx, base, amphora), ovn_mounts(network(ctx))
    rules = parts.policy_files(ctx)
    conf = parts.config(
        ctx, "octavia.conf", fixed_options, defaults=defaults(ctx), extra_files=rules, extra_mounts=certificate
    )
    sync = parts.schema(ctx, ["octavia-db-manage", "upgrade", "head"], conf, after=base.schema)
    settings = parts.ProgramSettings(
        memory="256Mi",
        mounts=kube.scratch(_SOCKETS),
        workers=_WORKERS,
        env=_restarts(ctx),
        containers=[_agent(ctx, conf)],
    )
    steps = (*base.steps, *(amphora.steps if amphora else ()))
    api = parts.api(ctx, "api", PORT, conf, settings=ctx.spec.api, after=(*steps, ovn, sync), program=settings)
    entry = parts.catalog(ctx, _SERVICE_TYPE, "Load Balancer", api, after=(*base.steps, api))
    removal = ["python3", "-c", agents.text("octavia/purge.py")]
    controllers = [amphora_steps(ctx, amphora, fixed_options, defaults(ctx), (*steps, sync))] if amphora else []
    return Plan(
        *parts.policies(ctx),
        *steps,
        ovn,
        conf,
        sync,
        api,
        *controllers,
        entry,
        *_restore(ctx, conf, after=(*base.steps, ovn, api, entry)),
        *purge(ctx, ctx.spec.purge, removal, conf, after=(sync,)),
        endpoint=api.public,
        published={**base.credentials.published, **api.published},
        preflight=parts.preflight(ctx, conf),
    )


def _has_broker(spec: OctaviaSpec) -> bool:
    """Return True if the operator makes an account at a broker."""
    return spec.amphora is not None and not spec.amphora.messaging.secret_ref


def _agent(ctx: Context[OctaviaSpec], conf: parts.Config) -> kube.Container:
    """Return the driver agent, which writes the status of load balancers into the database, for the API of its pod and
    as OVN's health monitors see their members. It also releases those whose change was lost with an API.
    """
    entry = parts.release_entry(ctx, _AGENT)
    start = entry.command.index(_PROGRAM)
    command = ["python3", "-c", agents.text("octavia/driver_agent.py")]
    ports = [_port(network(ctx)[name]) for name in ("northbound", "southbound")]
    runs = agents.shell("octavia/agent_runs.sh")
    return kube.Container(
        entry=replace(entry, commands={"run": [*entry.command[:start], *command, *entry.command[start + 1 :]]}),
        name=_AGENT,
        mounts=(*conf.mounts, *kube.scratch("/tmp", "/run", parts.state(ctx), _SOCKETS)),  # noqa: S108
        started=kube.Probe.of_worker(agents.shell("octavia/agent_listens.sh", words=(SOCKETS, *ports))),
        # Not its connections: while OVN's databases cannot be reached, the API still lists load balancers.
        ready=kube.Probe.of_worker(agents.shell("octavia/agent_listens.sh", words=(SOCKETS,))),
        alive=kube.Probe.of_worker(runs),
        lifecycle={
            "preStop": {"exec": {"command": agents.shell("octavia/await_api.sh", words=(str(PORT),), options="-c")}}
        },
        memory="256Mi",
    )


def _port(connection: str) -> str:
    """Return the port of a database; all its members have the same."""
    return connection.rpartition(":")[2]


def _restore(ctx: Context[OctaviaSpec], conf: parts.Config, *, after: Sequence[Step]) -> list[Step]:
    """Return a Job for each northbound database that was rebuilt; none for the first one. It fails, and is tried again,
    while Neutron has not written the networks yet.
    """
    identity = rebuilt_databases(network(ctx))[0]
    if not identity:
        return []
    command = ["python3", "-c", agents.text("octavia/restore.py"), *parts.release_entry(ctx, _AGENT).command]
    job = parts.job(
        ctx,
        "restore",
        command,
        conf,
        after=after,
        condition="OVNConnected",
        program=parts.ProgramSettings(
            release_component=_AGENT, mounts=kube.scratch(_SOCKETS), env={"OVN_NORTHBOUND": identity}
        ),
    )
    return [job]


def _restarts(ctx: Context[OctaviaSpec]) -> dict[str, str]:
    """Return a variable that makes pods restart once a database of OVN was rebuilt: their copy of the former one is
    newer, so they would wait for it without end (ovs.db.idl).
    """
    identities = [identity for identity in rebuilt_databases(network(ctx)) if identity]
    return {"OVN_REBUILT": ",".join(identities)} if identities else {}
