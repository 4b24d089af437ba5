"""Results of runs: the termination messages of their pods, and a record of the newest that outlives these."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ... import kube
from ...plan import Context, Object, State, Step, Verdict, failed, waiting
from .model import TempestSpec

RUN_NOW = "tempest.openstack.c5c3.io/run-now"
"""Annotation of a Tempest: each new value orders a run, besides those on schedule."""
ORDER = "tempest.openstack.c5c3.io/order"
"""Label of the pods of an ordered run: a digest of the order."""
PASSED = "TestsPassed"
_MAX_NAMED = 20
"""Maximum number of failing tests that a condition names."""
_FILE, _ORDER = "last-run.json", "obeyed"
"""Keys of the record."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that has ended."""

    began: datetime
    ended: datetime
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: Sequence[str] = ()
    """Names of failing tests; of many, the first ones."""
    error: str = ""
    """Reason for which it could not test, or not to the end."""
    order: str = ""
    """Digest of the order it obeyed; empty for one on schedule."""

    @property
    def total(self) -> int:
        """All tests."""
        return self.passed + self.failed + self.skipped

    @property
    def verdict(self) -> Verdict:
        """The condition TestsPassed."""
        if not self.total:
            return failed(self.error or "spec.tests selects no test", "RunFailed")
        if self.failed or self.error:
            names, unnamed = ", ".join(self.failures[:_MAX_NAMED]), self.failed - len(self.failures[:_MAX_NAMED])
            text = f"{self.failed} of {self.total} tests failed: {names}" if self.failed else ""
            rest = f" and {unnamed} more; see the pod's log" if self.failed and unnamed > 0 else ""
            return failed("; ".join(filter(None, (self.error, text + rest))), "TestsFailed")
        return Verdict(State.READY, f"{self.passed} tests passed, {self.skipped} were skipped")

    @property
    def details(self) -> dict[str, Any]:
        """Fields of the status."""
        counts = {"passed": self.passed, "failed": self.failed, "skipped": self.skipped, "total": self.total}
        return {
            "lastRun": f"{self.began:%Y-%m-%dT%H:%M:%SZ}",
            "lastDuration": duration(int((self.ended - self.began).total_seconds())),
            "results": {f"{name}Tests": count for name, count in counts.items()},
        }

    def dump(self) -> str:
        """Return JSON for `_read`."""
        fields = {name: value for name, value in vars(self).items() if value}
        return json.dumps(fields | {"began": self.began.isoformat(), "ended": self.ended.isoformat()})


def duration(seconds: int) -> str:
    """Return a duration as Go writes it: 45m12s."""
    minutes, rest = divmod(max(seconds, 0), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"


def last_run(ctx: Context[TempestSpec]) -> Run | None:
    """Return the run that began last of those that have ended, from their pods and the record."""
    text = _stored(ctx).get(_FILE)
    return max((*_runs(ctx), *([_read(json.loads(text))] if text else [])), key=lambda run: run.began, default=None)


def order(ctx: Context[TempestSpec]) -> str:
    """Return the digest of the present order; empty without an order."""
    text = ctx.annotations.get(RUN_NOW, "")
    return kube.digest(text) if text else ""


def obeyed_order(ctx: Context[TempestSpec]) -> str:
    """Return the digest of the last order that was obeyed: tests ran, with any result."""
    orders = {run.order for run in _runs(ctx) if run.total}
    return order(ctx) if order(ctx) in orders else _stored(ctx).get(_ORDER, "")


def record(ctx: Context[TempestSpec], run: Run | None) -> Step:
    """Return ConfigMap `<owner>-results`, since pods go with their jobs, and with their nodes."""
    data = {_FILE: run.dump() if run else "", _ORDER: obeyed_order(ctx)}
    return Step(name="Results", objects=(kube.obj(ctx, "ConfigMap", ctx.name("results"), data=data),))


def _stored(ctx: Context[TempestSpec]) -> Mapping[str, str]:
    return (ctx.live("ConfigMap", "results") or {}).get("data") or {}


def _runs(ctx: Context[TempestSpec]) -> list[Run]:
    return [run for pod in ctx.pods if (run := _run(pod))]


def verdict(run: Run | None) -> Verdict:
    """Return the condition TestsPassed."""
    return run.verdict if run else waiting("no run has ended yet")


def _run(pod: Object) -> Run | None:
    """Return the run of a pod, once it has ended."""
    statuses = pod["status"].get("containerStatuses") or ({},)
    ended = (statuses[0].get("state") or {}).get("terminated") or {}
    if not ended.get("startedAt") or not ended.get("finishedAt"):
        return None
    order = pod["metadata"].get("labels", {}).get(ORDER, "")
    times = {"began": ended["startedAt"], "ended": ended["finishedAt"], "order": order}
    try:
        report: Any = json.loads(ended.get("message") or "")
    except ValueError:
        report = None
    if not isinstance(report, dict) or not isinstance(report.get("passed"), int):
        # The message is not by our program.
        log = kube.last_log(str(ended.get("message", "")), len(statuses))
        error = f"the pod ended with {ended.get('exitCode')} ({ended.get('reason', '')})" + (f": {log}" if log else "")
        report = {"error": error}
    return _read({**report, **times})


def _read(report: Mapping[str, Any]) -> Run:
    fields: dict[str, Any] = {name: value for name, value in report.items() if name in Run.__dataclass_fields__}
    fields["began"], fields["ended"] = (datetime.fromisoformat(report[name]) for name in ("began", "ended"))
    return Run(**fields)
