"""The verdict on workloads that are not ready, with what Kubernetes says of their pods."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ..kube import diagnose, judge
from ..plan import Object, State, Verdict
from .pods import workload_of
from .store import Request
from .world import World

_WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet", "Job"}


class Diagnostician:
    """Judges the objects of one resource during one pass."""

    def __init__(self, world: World, request: Request, now: datetime, rollouts: set[str]) -> None:
        """`rollouts` are the uids of workloads whose pods are being replaced; what is done is taken out."""
        self._world, self._request, self._now, self._rollouts = world, request, now, rollouts
        self.rolled_out: list[str] = []
        """Workloads that run on their new template, as Kind/name."""
        self.again: float | None = None
        """Seconds after which a verdict changes by time alone."""

    def judge(self, live: Object) -> Verdict:
        """The verdict on a live object; of a workload that is not ready, with why its pods do not start."""
        verdict = judge(live)
        if verdict.ready and live["metadata"].get("uid") in self._rollouts:
            self._rollouts.discard(live["metadata"]["uid"])
            self.rolled_out.append(f"{live['kind']}/{live['metadata']['name']}")
        if live["kind"] not in _WORKLOADS or verdict.state is not State.PROGRESSING:
            return verdict
        found = diagnose(live, verdict, self._pods(live), self._warnings, self._now)
        if found.again:
            seconds = (found.again - self._now).total_seconds()
            self.again = seconds if self.again is None else min(self.again, seconds)
        return found.verdict

    def _pods(self, live: Object) -> list[Object]:
        role = self._world.resource(self._request.kind).role
        pods = self._world.pods.owned(self._request.namespace, role, self._request.name)
        workload = live["kind"], live["metadata"]["name"]
        return [pod.decode() for pod in pods if workload_of(pod.meta) == workload]

    def _warnings(self, kind: str, name: str, uid: str) -> Sequence[Object]:
        return self._world.warnings.about(self._request.namespace, kind, name, uid)
