"""Workloads that stop for a moment while their pods are replaced, and how long that took the last time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..kube import is_dispensable
from ..plan import Object
from ..plan.steps import WORKLOADS
from ..runtime.kinds import Kind
from .changes import ObjectChange, is_job
from .client import Address, Write

_NONE = (0, "0", "0%")
"""Forms of no pod at all in `maxSurge`."""
REPLICA_SET = Kind("apps/v1", "ReplicaSet", "replicasets")


@dataclass(frozen=True)
class Outage:
    """A workload that is away for a moment."""

    name: str
    """Kind/name."""
    reason: str


def outages(changes: Sequence[ObjectChange], writes: Mapping[Address, Write]) -> list[Outage]:
    """Return the workloads that stop before the next pod starts, and those that go."""
    return [Outage(change.name, reason) for change in changes if (reason := _reason(change, writes[change.address]))]


def _reason(change: ObjectChange, write: Write) -> str:  # noqa: PLR0911  (a table)
    kind, before, after = change.address.kind.kind, write.before, write.after
    if kind not in WORKLOADS or before is None or is_dispensable(before):
        return ""
    if after is None or change.verb == "deleted":
        return "it is deleted"
    if kind == "DaemonSet":
        # With OnDelete, too: the operator ends the pods.
        update = after["spec"].get("updateStrategy") or {}
        stays = (update.get("rollingUpdate") or {}).get("maxSurge", 0) not in _NONE
        return "" if stays or not change.replaces_pods else "on each node, while its pod there is replaced"
    pods = after["spec"].get("replicas", 1)
    if pods == 0 and before["spec"].get("replicas", 1):
        return "it has no pods any more"
    if not change.replaces_pods or pods == 0:
        return ""
    strategy = after["spec"].get("strategy") or {}
    if kind == "StatefulSet" and pods == 1:
        return "its only pod is replaced"
    if strategy.get("type") == "Recreate":
        return "all its pods stop before new ones start"
    surge = (strategy.get("rollingUpdate") or {}).get("maxSurge", "25%")
    if kind == "Deployment" and pods == 1 and surge in _NONE:
        return "its only pod is replaced"
    return ""


def last_durations(
    changes: Iterable[ObjectChange],
    writes: Mapping[Address, Write],
    replica_sets: Iterable[Object],
    jobs: Iterable[Object],
) -> dict[str, float]:
    """Return the seconds that roll-outs and jobs took the last time, by Kind/name, as far as the cluster tells."""
    newest: dict[str, str] = {}
    for live in replica_sets:
        owner = next(
            (each["name"] for each in live["metadata"].get("ownerReferences") or () if each.get("controller")), ""
        )
        newest[owner] = max(newest.get(owner, ""), live["metadata"].get("creationTimestamp") or "")
    finished = list(jobs)
    durations: dict[str, float | None] = {}
    for change in changes:
        name, before = change.address.name, writes[change.address].before
        if is_job(change):
            durations[change.name] = _of_similar_job(name, finished)
        elif change.replaces_pods and before and change.address.kind.kind == "Deployment":
            progress = next(
                (each for each in before.get("status", {}).get("conditions") or () if each["type"] == "Progressing"), {}
            )
            if progress.get("reason") == "NewReplicaSetAvailable":
                durations[change.name] = _seconds(newest.get(name, ""), progress.get("lastUpdateTime", ""))
    return {name: seconds for name, seconds in durations.items() if seconds is not None and seconds >= 0}


def _of_similar_job(name: str, jobs: Sequence[Object]) -> float | None:
    """Return the seconds of the newest finished Job whose name differs in its digest alone."""
    stem = name.rpartition("-")[0]
    similar = [each.get("status") or {} for each in jobs if each["metadata"]["name"].rpartition("-")[0] == stem]
    times = [(str(each["completionTime"]), each.get("startTime", "")) for each in similar if each.get("completionTime")]
    ended, began = max(times, default=("", ""))
    return _seconds(began, ended)


def _seconds(began: Any, ended: Any) -> float | None:
    try:
        return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except (ValueError, TypeError):
        return None
