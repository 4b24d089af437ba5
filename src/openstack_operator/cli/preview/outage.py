"""Workloads that stop for a moment while their pods are replaced, and how long that took the last time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...kube import conditions, is_dispensable
from ...plan import Object
from ...plan.steps import WORKLOADS
from ...runtime.kubernetes.kinds import Kind
from .changes import ObjectChange, is_job
from .client import Address, Write

_NONE = (0, "0", "0%")
"""Forms of no pod at all in `maxSurge`."""
_REVISION, _EARLIER_REVISIONS = "deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history"
"""Annotations of Deployments and ReplicaSets; only a ReplicaSet that a Deployment went back to has the second one."""
_DEADLINE = 600
"""Seconds in which a Deployment has to make progress, unless it says otherwise (`progressDeadlineSeconds`)."""
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
        return "" if stays or not change.replaces_pods else "on each node while its pod is replaced"
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
    replica_sets: Sequence[Object],
    jobs: Sequence[Object],
) -> dict[str, float]:
    """Return the seconds that roll-outs and jobs took the last time, by Kind/name, as far as the cluster tells."""
    durations: dict[str, float | None] = {}
    for change in changes:
        before = writes[change.address].before
        if is_job(change):
            durations[change.name] = _of_similar_job(change.address.name, jobs)
        elif change.replaces_pods and before and change.address.kind.kind == "Deployment":
            durations[change.name] = _of_last_rollout(before, replica_sets)
    return {name: seconds for name, seconds in durations.items() if seconds is not None and seconds >= 0}


def _of_last_rollout(live: Object, replica_sets: Iterable[Object]) -> float | None:
    """Return the seconds from the creation of a Deployment's present ReplicaSet to the end of its roll-out; None where
    these are not the two ends of one roll-out.
    """
    progress = conditions(live).get("Progressing", {})
    revision = _annotation(live, _REVISION)
    present = next(
        (each for each in replica_sets if _is_of(live, each) and _annotation(each, _REVISION) == revision), None
    )
    if progress.get("reason") != "NewReplicaSetAvailable" or not revision or present is None:
        return None
    # One that a Deployment goes back to is as old as its first roll-out.
    if _annotation(present, _EARLIER_REVISIONS) or f'"{present["metadata"]["name"]}"' not in progress.get(
        "message", ""
    ):
        return None
    seconds = _seconds(present["metadata"].get("creationTimestamp"), progress.get("lastUpdateTime"))
    # The time moves, too, when a Deployment comes back that had failed. Longer than its deadline, it was held up.
    deadline = live["spec"].get("progressDeadlineSeconds", _DEADLINE)
    return seconds if seconds is not None and seconds < deadline else None


def _is_of(deployment: Object, replica_set: Object) -> bool:
    uids = [each.get("uid") for each in replica_set["metadata"].get("ownerReferences") or () if each.get("controller")]
    return deployment["metadata"]["uid"] in uids


def _annotation(live: Object, name: str) -> str:
    return (live["metadata"].get("annotations") or {}).get(name, "")


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
