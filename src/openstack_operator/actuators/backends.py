"""CinderBackend: whether the services of a backend report, how much room it has, and how many volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from ..plan import Context, Outcome
from .answers import read
from .cinder import NAME, connected
from .keystone import Row
from .storage_models import CinderBackendSpec

_MOST = 2**40
"""GiB that no backend has."""


class _Service(TypedDict):
    host: str
    state: str


class _Pool(TypedDict):
    name: str
    capabilities: Row


class _Count(TypedDict):
    count: NotRequired[Annotated[int, Meta(ge=0, lt=2**31)]]


READY, DOWN = "Ready", "Down"


def ensure(ctx: Context[CinderBackendSpec]) -> Sequence[str]:
    """Do nothing: cinder-volume registers itself."""
    del ctx
    return ()


def remove(ctx: Context[CinderBackendSpec]) -> None:
    """Do nothing: a job of Cinder's removes the backend."""
    del ctx


def details(ctx: Context[CinderBackendSpec]) -> Mapping[str, Any]:
    """Return Cinder's view of the backend as fields of its status. Raises Transient where Cinder does not answer."""
    spec, cinder = ctx.spec, connected(ctx)
    services = cinder.rows("/os-services", "services", _Service, binary="cinder-volume")
    # Its scheduler knows pools by cluster where there is one.
    hosts = {f"{spec.cluster}@{spec.backend}"} if spec.cluster else set(spec.hosts)
    pools = [
        pool["capabilities"]
        for pool in cinder.rows("/scheduler-stats/get_pools", "pools", _Pool, detail="true")
        if pool["name"].rpartition("#")[0] in hosts
    ]
    up = any(service["host"] in spec.hosts and service["state"] == "up" for service in services)
    problem = "its driver has not reported its capacity" if up else "no cinder-volume reports for it"
    message = "" if up and pools else problem
    fields = {
        "status": DOWN if message else READY,
        "message": message,
        "availableCapacity": _sum(pools, "free_capacity_gb"),
        "allocatedCapacity": _sum(pools, "allocated_capacity_gb"),
        "totalCapacity": _sum(pools, "total_capacity_gb"),
        "volumes": sum(_volumes(ctx, place) for place in sorted(hosts)),
    }
    return {name: value for name, value in fields.items() if value not in (None, "")}


def observe(ctx: Context[CinderBackendSpec]) -> Outcome:
    """Return what `details` finds as an outcome, for the engine."""
    return Outcome(details=details(ctx))


def _volumes(ctx: Context[CinderBackendSpec], place: str) -> int:
    """Return the number of volumes on a host or cluster; of `host@backend`, Cinder finds those of every pool."""
    filtered = {"cluster_name" if ctx.spec.cluster else "host": place}
    params = {"all_tenants": "1", "limit": "1", "with_count": "true", **filtered}
    answer = connected(ctx).call("GET", "/volumes", params=params)
    return read(NAME, answer, _Count).get("count", 0) if answer else 0


def _sum(pools: Sequence[Row], field: str) -> str | None:
    """Return the sum as a quantity of whole GiB; None where a pool reports none, or calls it infinite or unknown."""
    values = [pool.get(field) for pool in pools]
    if not values or not all(isinstance(value, (int, float)) and abs(value) < _MOST for value in values):
        return None
    return f"{int(sum(float(value) for value in values if value is not None))}Gi"
