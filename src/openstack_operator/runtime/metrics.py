"""The counters of the engine, under the names controller-runtime gave them, so that stock dashboards work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.registry import Collector

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")

RECONCILES = Counter("controller_runtime_reconcile", "Passes by result.", ["controller", "result"])
ERRORS = Counter("controller_runtime_reconcile_errors", "Passes that ended in an error.", ["controller"])
PANICS = Counter("controller_runtime_reconcile_panics", "Passes that ended in an unforeseen exception.", ["controller"])
SECONDS = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "Duration of a pass.",
    ["controller"],
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
STEP_SECONDS = Histogram(
    "openstack_operator_step_seconds",
    "Duration of applying the objects of a plan's step.",
    ["controller"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
)
ACTIVE = Gauge("controller_runtime_active_workers", "Passes in progress.", ["controller"])
DEPTH = Gauge("workqueue_depth", "Keys that wait for a worker.", ["name"])
ADDS = Counter("workqueue_adds", "Keys added.", ["name"])
QUEUED_SECONDS = Histogram(
    "workqueue_queue_duration_seconds",
    "Time that a key waits for a worker.",
    ["name"],
    buckets=(0.001, 0.01, 0.1, 1, 10, 60, 300),
)
RETRIES = Counter("workqueue_retries", "Keys added again after a failure.", ["name"])
REQUESTS = Counter("rest_client_requests", "Requests to the Kubernetes API.", ["code", "method"])
REQUEST_SECONDS = Histogram(
    "rest_client_request_duration_seconds",
    "Duration of requests to the Kubernetes API, without watches and lists.",
    ["verb"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60),
)
OBJECTS = Gauge("openstack_operator_cached_objects", "Objects in the cache.", ["kind"])
REFUSED = Counter(
    "openstack_operator_refused_objects",
    "Objects not cached because their namespace exceeds its share.",
    ["namespace"],
)
EVENTS = Counter("openstack_operator_watch_events", "Changes that a watch reported.", ["kind"])
RELISTS = Counter(
    "openstack_operator_relists", "Repeated lists of a kind; each is listed again after 20 to 45 minutes.", ["kind"]
)
LEADER = Gauge("leader_election_master_status", "1 while this replica leads.", ["name"])
ABSENT_POLICIES = Gauge(
    "openstack_operator_absent_admission_policies",
    "Policies of deploy/admission.yaml that the cluster lacks or has with another content; all if they cannot be read.",
)
LAG = Gauge("openstack_operator_loop_lag_seconds", "Delay of the event loop's last wake-up.")
CHANGES = Counter("openstack_operator_remote_changes", "Changes by actuators outside Kubernetes.", ["kind"])


def timed(
    seconds: Histogram, call: Callable[[_Argument], Awaitable[_Result]]
) -> Callable[[_Argument], Awaitable[_Result]]:
    """Return the same function, of which a histogram counts how long each call takes."""

    async def counted(argument: _Argument) -> _Result:
        with seconds.time():
            return await call(argument)

    return counted


def exposition(resources: Collector | None = None) -> Callable[[], bytes]:
    """Return a function that makes the text for Prometheus: the counts of this process, and what `resources` collects
    at that moment.
    """
    registry = CollectorRegistry()
    if resources:
        registry.register(resources)
    return lambda: generate_latest() + generate_latest(registry)
