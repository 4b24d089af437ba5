"""Pods whose startup probe passed, while the kubelet has not run their first readiness probe yet.

A kubelet that has just started, as after a power cut, spreads the first readiness probes over their period, which is
half a minute for programs behind no Service (docs/decisions/0042). The startup probe has run the same command.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from ..plan import Object
from .pod_facts import LONG_AGO, container_statuses, parse_time, unready_since
from .rollout import Rollout, conditions

_POD_NAME = "statefulset.kubernetes.io/pod-name"
"""Label that Kubernetes gives to each pod of a StatefulSet; it is in no template."""
_PERIOD = 30
"""Seconds between the readiness probes of a program behind no Service."""
_FIRST_PROBE = timedelta(minutes=2)
"""Time after a container's start in which its first readiness probe comes: that of a slow start, and a whole period."""


def started_until(workload: Object, pods: Iterable[Object], selectors: Iterable[Object]) -> datetime | None:
    """Return the time until which a workload counts as ready, since the startup probes of all its pods have passed;
    None where that is not enough: a container does not run, a pod was ready since its start and is no more, or a
    Service, of which `selectors` are the pods, sends clients to ready pods alone.
    """
    template = workload["spec"]["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if any(_selects(selector, labels) for selector in selectors):
        return None
    containers = [each for each in template["spec"]["containers"] if "readinessProbe" in each]
    rollout = Rollout(workload)
    if rollout.is_running or not containers or not all(_is_asked_the_same(each) for each in containers):
        return None
    current = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    unready = [pod for pod in current if conditions(pod).get("Ready", {}).get("status") != "True"]
    if len(current) != rollout.desired or not unready:
        return None
    names = [each["name"] for each in containers]
    starts = [start for pod in unready for start in _starts(pod, names)]
    if not all(_all_run(pod, template["spec"]["containers"]) for pod in unready):
        return None
    return None if None in starts else min(start for start in starts if start) + _FIRST_PROBE


def _selects(selector: Object, labels: Mapping[str, str]) -> bool:
    return bool(selector) and all(labels.get(name) == value for name, value in selector.items() if name != _POD_NAME)


def _all_run(pod: Object, containers: Iterable[Object]) -> bool:
    by_name = {each["name"]: each.get("state") or {} for each in container_statuses(pod)}
    return all("running" in by_name.get(each["name"], {}) for each in containers)


def _is_asked_the_same(container: Object) -> bool:
    """Return True if the startup probe repeats the command of the readiness probe, which comes seldom."""
    ready, start = container["readinessProbe"], container.get("startupProbe") or {}
    command, repeated = ((probe.get("exec") or {}).get("command") or [] for probe in (ready, start))
    is_seldom = ready.get("periodSeconds", 10) >= _PERIOD
    return is_seldom and bool(command) and repeated[-len(command) :] == command


def _starts(pod: Object, names: Sequence[str]) -> list[datetime | None]:
    """Return when each container started; None for one whose startup probe has not passed, or that was ready since."""
    by_name = {each["name"]: each for each in container_statuses(pod)}
    return [_start(by_name.get(name, {}), unready_since(pod)) for name in names]


def _start(status: Object, unready: datetime) -> datetime | None:
    run = (status.get("state") or {}).get("running")
    if not run or not (status.get("started") or status.get("ready")):
        return None
    start = parse_time(run.get("startedAt"), LONG_AGO)
    return start if unready <= start + timedelta(seconds=1) else None
