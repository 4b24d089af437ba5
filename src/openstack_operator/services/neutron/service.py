"""Neutron: the Networking API on ML2/OVN, its maintenance worker, and an agent that hands instances their metadata."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube, oslo, parts
from ...plan import READY, Context, NotBuilt, Plan, SpecError, Step, progressing
from .agent import metadata_agent
from .config import DEFAULTS, POLICY, network, neutron_conf, patience
from .model import NeutronSpec
from .refill import refill, remark

WORKER = "ovn-maintenance-worker"
BUILT = ("ovn", "logger")
"""Mechanism drivers that need no agent but those there are."""


def plan(ctx: Context[NeutronSpec]) -> Plan:
    """Everything a Neutron is made of; published: internalURL, publicURL, metadataSecret (key `metadata`).

    OVN alone needs neither RPC server nor periodic workers: agents speak to its databases, not to Neutron.
    """
    _check(ctx.spec)
    base = parts.foundation(ctx, "metadata")
    at = network(ctx)
    ovn = Step(name="OVNConnected", verdict=at.verdict)
    defaults, more = oslo.merge(DEFAULTS, patience(ctx)), {"ml2_conf.ini": _EMPTY_ML2 + remark(ctx), **POLICY}
    beside = parts.ovn_mounts(at)
    conf = parts.config(ctx, "neutron.conf", neutron_conf(ctx, base), defaults=defaults, more=more, beside=beside)
    ml2 = kube.files("config", conf.secret, "/etc/neutron/plugins/ml2", "ml2_conf.ini")
    sync = parts.job(
        ctx,
        "db-sync",
        [*parts.program(ctx, "api").commands["manage"], "upgrade", "heads"],
        conf,
        after=base.schema,
        condition="Schema",
        mounts=ml2,
    )
    filled = refill(ctx, conf, after=(ovn, sync), mounts=ml2)
    needed = (*base.steps, ovn, sync, *filled)
    # OVN's events are shared out among all processes: what falls to one that ended is lost for a while.
    # It is the last to be up where all begin at once: after it started it looks at every port OVN tells of.
    workers = parts.Workers(threads=1, as_needed=False, cpu="50m")
    api = parts.api(
        ctx, "api", 9696, conf, settings=ctx.spec.api, after=needed, memory="224Mi", mounts=ml2, workers=workers
    )
    entry = parts.catalog(ctx, "network", "Networking", api, after=(*base.steps, api))
    # Where the release does not list it, the API does its work.
    worker = f"neutron-{WORKER}" in ctx.release
    agents = [_maintenance_worker(ctx, conf, after=needed, mounts=ml2)] if worker else []
    seen = [] if ctx.spec.ovn.network else [_connected(ctx, WORKER if worker else "api", after=(*agents, api))]
    if ctx.spec.metadata_agent.enabled:
        agents += metadata_agent(ctx, base.credentials["metadata"], after=(base.credentials, ovn, *base.waits))
    return Plan(
        *parts.policies(ctx),
        *base.steps,
        ovn,
        conf,
        sync,
        *filled,
        api,
        *agents,
        *seen,
        entry,
        endpoint=api.public,
        published={**base.credentials.published, **api.published, "metadataSecret": base.credentials.secret},
    )


# The programs read this file after neutron.conf, and the image's own would win.
_EMPTY_ML2 = "# Every option is in neutron.conf.\n"


def _check(spec: NeutronSpec) -> None:
    """Raises NotBuilt for what the API names but nobody carries out."""
    if spec.mechanism != "ovn":
        raise NotBuilt("spec.mechanism", f"{spec.mechanism} is not built yet; use ovn")
    if not spec.ovn.enabled:
        raise NotBuilt("spec.ovn.enabled", "nothing but OVN is built yet; use true")
    drivers = spec.ml2.mechanism_drivers
    if missing := [driver for driver in drivers if driver not in BUILT]:
        raise NotBuilt("spec.ml2.mechanismDrivers", f"{missing[0]} is not built yet; choose from {', '.join(BUILT)}")
    if "ovn" not in drivers:
        raise SpecError("spec.ml2.mechanismDrivers", "mechanism ovn is carried out by the driver ovn; name it")


def _connected(ctx: Context[NeutronSpec], component: str, *, after: Sequence[Step]) -> Step:
    """Of an OVN that only connections tell of, all there is to see is whether who speaks to it is ready."""
    live = ctx.children.get(("Deployment", kube.fitting(ctx.name(component))))
    ready = live is not None and kube.judge(live).ready
    verdict = READY if ready else progressing(f"{component} has no connection to OVN yet; see spec.ovn.nbConnection")
    return Step(name="OVNConnected", verdict=verdict, after=tuple(after))


def _maintenance_worker(
    ctx: Context[NeutronSpec], conf: parts.Config, *, after: tuple[Step, ...], mounts: list[kube.Mount]
) -> Step:
    """A worker that is ready when it has an established (01) connection to the northbound database."""
    members = network(ctx)["northbound"].split(",")
    ports = r"\|".join(sorted({f":{int(member.rpartition(':')[2]):04X} 01 " for member in members}))
    connected = kube.Probe.of_worker(["grep", "-qs", ports, "/proc/net/tcp", "/proc/net/tcp6"])
    return parts.worker(
        ctx,
        WORKER,
        conf,
        settings=ctx.spec.ovn_maintenance_worker,
        after=after,
        ready=connected,
        memory="224Mi",
        mounts=mounts,
    )
