"""Rules by which a live object still does its work for others, whatever is left to do for its present spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..plan import Object
from ..plan.steps import WORKLOADS
from .objects import is_dispensable
from .readiness import is_own, judge
from .rollout import Rollout, conditions


def serves(live: Object) -> bool | None:
    """Return True if a live object serves, False if it does not; None for one that serves no user by itself, like a Job
    or a Secret.

    A workload serves while as many of its pods are ready as its disruption budget asks for, old or new. A resource of
    ours says so itself, in `Ready`.
    """
    if is_dispensable(live):
        return None
    if live["kind"] in WORKLOADS:
        rollout = Rollout(live)
        # Its controller has not looked at a new one yet, and counts no pods.
        is_known = bool((live.get("status") or {}).get("observedGeneration"))
        if is_known and not rollout.desired:
            return None
        return is_known and rollout.ready >= _needed(rollout, live)
    if is_own(live):
        return conditions(live).get("Ready", {}).get("status") == "True"
    return None if live["kind"] == "Job" or judge(live).ready else False


def is_new(live: Mapping[str, Any]) -> bool:
    """Return True if a resource of ours that is part of OpenStack has never run completely: it serves no user yet."""
    status = live.get("status") or {}
    return not conditions(live) or ("release" in (live.get("spec") or {}) and not status.get("release"))


def _needed(rollout: Rollout, live: Object) -> int:
    """Return how many pods a workload needs to serve: all but the one that a disruption budget lets go, and at least
    one. A DaemonSet serves while half of its nodes have a pod: each pod serves its node alone, and nodes come and go.
    """
    if live["kind"] == "DaemonSet":
        return (rollout.desired + 1) // 2
    return max(1, rollout.desired - 1)
