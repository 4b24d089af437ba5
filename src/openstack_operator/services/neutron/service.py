"""Neutron: the Networking API on ML2/OVN, its maintenance worker, and an agent that gives instances their metadata."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, oslo, parts
from ...parts.connect.broker_move import with_moves
from ...parts.connect.ovn import ovn_client_copy, ovn_defaults, ovn_mounts
from ...plan import READY, Context, Plan, SpecError, Step, UnsupportedError, out_of_service
from .agent import metadata_agent
from .config import DEFAULTS, POLICIES, network, neutron_conf, service_plugins
from .full_names import full_names
from .model import NeutronSpec
from .ovn_sync import db_resync, remark

_SERVICE_TYPE = "network"
WORKER = "ovn-maintenance-worker"
DRIVERS = ("ovn", "logger")
"""Mechanism drivers that need no further agent."""
# One process waits for OVN most of the time that a request takes, while the other one uses the CPU.
_WORKERS = parts.Workers(processes=2, threads=1, as_needed=False, cpu="50m")


@with_moves
def plan(ctx: Context[NeutronSpec]) -> Plan:
    """Return the steps of a Neutron. Published: internalURL, publicURL, metadataSecret (key `metadata`).

    OVN alone needs neither RPC server nor periodic workers: agents speak to its databases, not to Neutron.
    """
    _check(ctx.spec)
    base = parts.foundation(ctx, "metadata", service_type=_SERVICE_TYPE)
    ovn_contract = network(ctx)
    copy = ovn_client_copy(ctx, ctx.spec.ovn.network) if ctx.spec.ovn.network else ()
    ovn = Step(name="OVNConnected", objects=copy, verdict=ovn_contract.verdict)
    names = full_names(ctx)
    defaults, files = (
        oslo.merge(
            DEFAULTS,
            {"DEFAULT": {"service_plugins": ",".join(service_plugins(ctx.spec)), **_api_workers(ctx)}},
            ovn_defaults(ovn_contract),
        ),
        {"ml2_conf.ini": _EMPTY_ML2 + remark(ctx), **parts.policy_files(ctx, POLICIES)},
    )
    certificate = ovn_mounts(ovn_contract)
    conf = parts.config(
        ctx, "neutron.conf", neutron_conf(ctx, base), defaults=defaults, extra_files=files, extra_mounts=certificate
    )
    ml2 = _ml2(conf.secret)
    command = [*parts.release_entry(ctx, "api").commands["manage"], "upgrade", "heads"]
    # It takes longest of all schemas, and a new cloud waits for Neutron.
    program = parts.ProgramSettings(mounts=ml2, cpu="100m")
    sync = parts.schema(ctx, command, conf, after=base.schema, program=program)
    resync = db_resync(ctx, conf, after=(ovn, sync), mounts=ml2)
    dependencies = (*base.steps, ovn, sync, *resync)
    # OVN's events are distributed among all processes: those of a process that ended are lost for a while.
    # It is ready last if all start at once: after its start it checks every port of OVN.
    program = parts.ProgramSettings(
        memory="448Mi",
        mounts=ml2,
        workers=_WORKERS,
        wrapper=names.wrapper,
        env=names.env,
    )
    api = parts.api(ctx, "api", 9696, conf, settings=ctx.spec.api, after=dependencies, program=program)
    entry = parts.catalog(ctx, _SERVICE_TYPE, "Networking", api, after=(*base.steps, api))
    # Where the release does not list it, the API does its work.
    has_worker = f"neutron-{WORKER}" in ctx.release
    agents = [_maintenance_worker(ctx, conf, after=dependencies, mounts=ml2)] if has_worker else []
    client = [] if ctx.spec.ovn.network else [_connected(ctx, WORKER if has_worker else "api", after=(*agents, api))]
    if ctx.spec.metadata_agent.enabled:
        agents += metadata_agent(ctx, base.credentials["metadata"], after=(base.credentials, ovn, *base.waits))
    return Plan(
        *parts.policies(ctx),
        *base.steps,
        ovn,
        conf,
        sync,
        *resync,
        api,
        *agents,
        *client,
        entry,
        endpoint=api.public,
        published={**base.credentials.published, **api.published, "metadataSecret": base.credentials.secret},
        preflight=parts.preflight(ctx, conf, mounts=_ml2),
    )


def _ml2(secret: str) -> list[kube.Mount]:
    return kube.files("config", secret, "/etc/neutron/plugins/ml2", "ml2_conf.ini")


# The programs read this file after neutron.conf, and the image's own would win.
_EMPTY_ML2 = "# Every option is in neutron.conf.\n"


def _check(spec: NeutronSpec) -> None:
    """Raise UnsupportedError for values of the API that are not supported."""
    if spec.mechanism != "ovn":
        raise UnsupportedError("spec.mechanism", f"{spec.mechanism} is not supported; use ovn")
    if not spec.ovn.enabled:
        raise UnsupportedError("spec.ovn.enabled", "only OVN is supported; use true")
    drivers = spec.ml2.mechanism_drivers
    if missing := [driver for driver in drivers if driver not in DRIVERS]:
        raise UnsupportedError(
            "spec.ml2.mechanismDrivers", f"{missing[0]} is not supported; choose from {', '.join(DRIVERS)}"
        )
    if "ovn" not in drivers:
        raise SpecError("spec.ml2.mechanismDrivers", "mechanism ovn needs the driver ovn; add it")


def _api_workers(ctx: Context[NeutronSpec]) -> dict[str, int]:
    """Return the number of processes that share OVN's events; none for a program that would start them by itself."""
    takes = any("{processes}" in word for word in parts.release_entry(ctx, "api").command)
    return {"api_workers": ctx.spec.api.processes or _WORKERS.processes} if takes else {}


def _connected(ctx: Context[NeutronSpec], component: str, *, after: Sequence[Step]) -> Step:
    """Return a step for an OVN that is known by its addresses only: it is ready if the client of OVN is ready."""
    live = ctx.live("Deployment", component)
    ready = live is not None and kube.judge(live).ready
    verdict = READY if ready else out_of_service(f"{component} has no connection to OVN yet; see spec.ovn.nbConnection")
    return Step(name="OVNConnected", verdict=verdict, after=tuple(after))


def _maintenance_worker(
    ctx: Context[NeutronSpec], conf: parts.Config, *, after: tuple[Step, ...], mounts: list[kube.Mount]
) -> Step:
    """Return a worker that is ready once it has an established (01) connection to the northbound database."""
    members, names = network(ctx)["northbound"].split(","), full_names(ctx)
    ports = r"\|".join(sorted({f":{int(member.rpartition(':')[2]):04X} 01 " for member in members}))
    connected = kube.Probe.of_worker(["grep", "-qs", ports, "/proc/net/tcp", "/proc/net/tcp6"])
    return parts.worker(
        ctx,
        WORKER,
        conf,
        settings=ctx.spec.ovn_maintenance_worker,
        after=after,
        ready=connected,
        program=parts.ProgramSettings(memory="224Mi", mounts=mounts, wrapper=names.wrapper, env=names.env),
    )
