"""The roll-out of a workload: which of its pods Kubernetes has replaced, read from three kinds of status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..plan import Object

ON_DELETE = "OnDelete"
"""Strategy of a DaemonSet whose pods the operator replaces."""
_COMPLETED, _STUCK = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
"""Reasons of a Deployment's condition Progressing that end a roll-out."""


def conditions(live: Mapping[str, Any]) -> dict[str, Object]:
    """Return the conditions of a live object by type."""
    return {c["type"]: c for c in (live.get("status") or {}).get("conditions") or ()}


def is_observed(live: Mapping[str, Any]) -> bool:
    """Return True if the status of a live object is about its present spec."""
    generation = live["metadata"].get("generation", 0)
    return (live.get("status") or {}).get("observedGeneration", 0) >= generation


@dataclass(frozen=True)
class Rollout:
    """The roll-out of a Deployment, a StatefulSet or a DaemonSet. One that does not exist, None, has no pods."""

    workload: Mapping[str, Any] | None

    @property
    def is_observed(self) -> bool:
        """True if the status is about the present spec."""
        return self.workload is not None and is_observed(self.workload)

    @property
    def desired(self) -> int:
        """Number of pods that the spec asks for; of a DaemonSet, the number of nodes that its controller counted."""
        if self._is_daemon_set:
            return self._status.get("desiredNumberScheduled", 0)
        # A spec that is too large to keep is left out.
        return (self.workload.get("spec") or {}).get("replicas", 1) if self.workload else 0

    @property
    def existing(self) -> int:
        """Number of pods of any template."""
        return self._status.get("currentNumberScheduled" if self._is_daemon_set else "replicas", 0)

    @property
    def updated(self) -> int:
        """Number of pods of the newest template."""
        if self._is_daemon_set:
            return self._status.get("updatedNumberScheduled", 0)
        return self.existing if self.has_one_revision else self._status.get("updatedReplicas", 0)

    @property
    def ready(self) -> int:
        """Number of pods that are ready, of any template."""
        return self._status.get("numberReady" if self._is_daemon_set else "readyReplicas", 0)

    @property
    def has_one_revision(self) -> bool:
        """True if every pod of a StatefulSet is of the template that its controller saw last."""
        is_stateful_set = self.workload is not None and self.workload["kind"] == "StatefulSet"
        return is_stateful_set and self._status.get("currentRevision") == self._status.get("updateRevision")

    @property
    def is_complete(self) -> bool:
        """True if all pods are of the newest template and ready, and none of an older one is left."""
        enough = self.updated >= self.desired and self.ready >= self.desired
        return self.is_observed and enough and (self._is_daemon_set or self.existing == self.desired)

    @property
    def is_running(self) -> bool:
        """True while a workload still has pods to replace. A pod that is not ready for another reason, such as a lost
        node, does not count.
        """
        if self.workload is None:
            return False
        if not self.is_observed:
            return True
        if self._is_daemon_set:
            return self.updated < self.desired
        if self.workload["kind"] == "StatefulSet":
            return not self.has_one_revision
        strategy = (self.workload.get("spec") or {}).get("strategy") or {}
        if strategy.get("type") != "Recreate":
            # The last pod of the older template ends after its successor is ready.
            return self.existing > self.updated
        # All pods of the older template end first, so it takes until the new ones were ready once. Kubernetes keeps
        # that in the reason. Where a quota admits no pod, it never ends.
        reason = conditions(self.workload).get("Progressing", {}).get("reason", _COMPLETED)
        return max(self.existing, self.desired) > self.updated or reason not in {_COMPLETED, _STUCK}

    @property
    def waits_for_operator(self) -> bool:
        """True for a DaemonSet that runs on all nodes, and of which Kubernetes leaves older pods as they are."""
        spec = (self.workload or {}).get("spec") or {}
        is_left = self._is_daemon_set and spec.get("updateStrategy", {}).get("type") == ON_DELETE
        return is_left and self.is_observed and self.ready >= self.desired > self.updated

    def progress(self) -> str:
        """Describe how many pods are ready, and during a roll-out, how many are still to replace."""
        desired, existing = self.desired, self.existing
        text = f"{min(self.ready, desired)}/{desired} pods ready"
        older = existing - self.updated
        if older > 0 and self.updated < desired:
            return f"{text}, {self.updated}/{desired} have the change"
        if older > 0:
            # Which of them are ready, Kubernetes does not say.
            ends = "ends" if older == 1 else "end"
            return f"{self.ready} of {existing} pods ready: {self.updated} new and {older} old, which {ends} next"
        return f"{text}, {_pods(existing - desired)} more to stop" if existing > desired else text

    @property
    def _is_daemon_set(self) -> bool:
        return self.workload is not None and self.workload["kind"] == "DaemonSet"

    @property
    def _status(self) -> Mapping[str, Any]:
        return (self.workload or {}).get("status") or {}


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"
