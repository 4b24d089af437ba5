"""The verdict on workloads that are not ready, with what Kubernetes says of their pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from ...kube import danger, diagnose, job_succeeded, judge, outdated, started_until
from ...plan import READY, Object, State, Verdict, progressing
from ..cache.entries import Request
from ..cache.trimmed_pods import workload_of
from ..cache.world import World
from ..kubernetes.kinds import JOB, SERVICE, STATEFUL_SET, VOLUME_CLAIM
from .apply_cache import ApplyCache

_WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet", "Job"}
_UPGRADE = timedelta(minutes=2)
"""Time to wait until this version has rewritten a status of another one: an object whose status the API server
refuses must not hold up the rest."""


class Diagnostician:
    """A judge of the objects of one resource during one pass."""

    def __init__(
        self,
        world: World,
        request: Request,
        now: datetime,
        apply_cache: ApplyCache,
        version: str,
        *,
        steady: datetime,
        image_fields: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`version` is that of this operator; `steady` the time of clock.steady; `image_fields` has the fields of the
        spec that set an image, by it. Roll-outs that are finished are removed from those of `apply_cache`.
        """
        self._image_fields = image_fields
        self._world, self._request, self._now, self._rollouts = world, request, now, apply_cache.announced_rollouts
        self._version = version
        apply_cache.began = apply_cache.began or steady
        self._patience = (apply_cache.began + _UPGRADE - steady).total_seconds()
        self._warned_volume_claims = apply_cache.endangered_volume_claims
        self.volume_warnings: list[str] = []
        """Warnings about volume claims that are being deleted and were not before."""
        self.is_outdated = False
        """True where this version of the operator has not reconciled one of the objects yet."""
        self.rolled_out: list[str] = []
        """Workloads that run on their new template, as Kind/name."""
        self.recheck_after: float | None = None
        """Seconds after which a verdict changes by time alone."""

    def judge(self, live: Object) -> Verdict:
        """Return the verdict on a live object; of a workload that is not ready, with why its pods do not start, and of
        one whose volumes are being deleted, with a warning.
        """
        verdict = self._judge(live)
        claims = [live] if live["kind"] == VOLUME_CLAIM.kind else self._claims(live)
        dangers = {claim["metadata"]["uid"]: text for claim in claims if (text := danger(claim))}
        self.volume_warnings += [text for uid, text in dangers.items() if uid not in self._warned_volume_claims]
        self._warned_volume_claims.update(dangers)
        texts = [text for text in dangers.values() if text not in verdict.message]
        return replace(verdict, message="; ".join(text for text in (verdict.message, *texts) if text))

    def _claims(self, live: Object) -> list[Object]:
        """Return volume claims Kubernetes made for a StatefulSet: `<name in its templates>-<its name>-<ordinal>`."""
        if live["kind"] != STATEFUL_SET.kind:
            return []
        role = self._world.resource(self._request.kind).role
        stem = f"-{live['metadata']['name']}"
        return [
            claim.decode()
            for claim in self._world.volumes.owned(self._request.namespace, role, self._request.name)
            if claim.meta.deletion_timestamp and claim.meta.name.rpartition("-")[0].endswith(stem)
        ]

    def _judge(self, live: Object) -> Verdict:
        verdict = judge(live)
        if verdict.ready and live["metadata"].get("uid") in self._rollouts:
            self._rollouts.discard(live["metadata"]["uid"])
            self.rolled_out.append(f"{live['kind']}/{live['metadata']['name']}")
        if self._patience > 0 and outdated(live, self._version):
            self.is_outdated = True
            self._recheck_in(self._patience)
            name = f"{live['kind']}/{live['metadata']['name']}"
            return progressing(f"{name}: the operator has not processed it yet") if verdict.ready else verdict
        if live["kind"] not in _WORKLOADS or verdict.state is not State.PROGRESSING:
            return verdict
        pods = self._pods(live)
        if live["kind"] == JOB.kind:
            if job_succeeded(live, pods):
                return READY
        elif (until := started_until(live, pods, self._selectors())) and until > self._now:
            self._recheck_in((until - self._now).total_seconds())
            return READY
        diagnosis = diagnose(
            live,
            verdict,
            pods,
            self._warnings,
            self._now,
            neighbours=self._ending_pods(),
            image_fields=self._image_fields,
        )
        if diagnosis.changes_at:
            self._recheck_in((diagnosis.changes_at - self._now).total_seconds())
        return diagnosis.verdict

    def _recheck_in(self, seconds: float) -> None:
        self.recheck_after = seconds if self.recheck_after is None else min(self.recheck_after, seconds)

    def _pods(self, live: Object) -> list[Object]:
        role = self._world.resource(self._request.kind).role
        pods = self._world.pods.owned(self._request.namespace, role, self._request.name)
        workload = live["kind"], live["metadata"]["name"]
        return [pod.decode() for pod in pods if workload_of(pod.meta) == workload]

    def _ending_pods(self) -> list[Object]:
        role = self._world.resource(self._request.kind).role
        pods = self._world.pods.owned(self._request.namespace, role, self._request.name)
        return [pod.decode() for pod in pods if pod.meta.deletion_timestamp]

    def _selectors(self) -> list[Object]:
        role = self._world.resource(self._request.kind).role
        services = self._world.stores[SERVICE].owned(self._request.namespace, role, self._request.name)
        return [service.decode()["spec"].get("selector") or {} for service in services]

    def _warnings(self, kind: str, name: str, uid: str) -> Sequence[Object]:
        return self._world.warnings.about(self._request.namespace, kind, name, uid)
