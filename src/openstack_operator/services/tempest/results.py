"""What came of runs: the last words of their pods, and a record of the newest that outlives these."""

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
"""Annotation of a Tempest: with each new value there is a run, besides those on schedule."""
ORDER = "tempest.openstack.c5c3.io/order"
"""Label of the pods of a run that was ordered: a digest of the order."""
PASSED = "TestsPassed"
_NAMED = 20
"""Failing tests a condition names."""
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
    """Names of failing tests; of many, the first."""
    error: str = ""
    """Why it could not test, or not to the end."""
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
            return failed(self.error or "no test has that name: spec.tests selects none", "RunFailed")
        if self.failed or self.error:
            named, more = ", ".join(self.failures[:_NAMED]), self.failed - len(self.failures[:_NAMED])
            counted = f"{self.failed} of {self.total} tests failed: {named}" if self.failed else ""
            others = f" and {more} more; the pod's log tells of all" if self.failed and more > 0 else ""
            return failed("; ".join(filter(None, (self.error, counted + others))), "TestsFailed")
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
        """JSON, read by `_read`."""
        known = {name: value for name, value in vars(self).items() if value}
        return json.dumps(known | {"began": self.began.isoformat(), "ended": self.ended.isoformat()})


def duration(seconds: int) -> str:
    """As Go writes it: 45m12s."""
    minutes, left = divmod(max(seconds, 0), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{left}s"


def last(ctx: Context[TempestSpec]) -> Run | None:
    """The run that began last of those that have ended, as far as anybody remembers."""
    known = _kept(ctx).get(_FILE)
    return max((*_ended(ctx), *([_read(json.loads(known))] if known else [])), key=lambda run: run.began, default=None)


def order(ctx: Context[TempestSpec]) -> str:
    """Digest of the order there is; empty where there is none."""
    said = ctx.annotations.get(RUN_NOW, "")
    return kube.digest(said) if said else ""


def obeyed(ctx: Context[TempestSpec]) -> str:
    """Digest of the last order that was obeyed: tests ran, whatever came of them."""
    done = {run.order for run in _ended(ctx) if run.total}
    return order(ctx) if order(ctx) in done else _kept(ctx).get(_ORDER, "")


def record(ctx: Context[TempestSpec], run: Run | None) -> Step:
    """ConfigMap `<owner>-results`: pods go with their jobs, and with their nodes."""
    data = {_FILE: run.dump() if run else "", _ORDER: obeyed(ctx)}
    return Step(name="Results", objects=(kube.obj(ctx, "ConfigMap", ctx.name("results"), data=data),))


def _kept(ctx: Context[TempestSpec]) -> Mapping[str, str]:
    return ctx.children.get(("ConfigMap", kube.fitting(ctx.name("results"))), {}).get("data") or {}


def _ended(ctx: Context[TempestSpec]) -> list[Run]:
    return [run for pod in ctx.pods if (run := _of(pod))]


def verdict(run: Run | None) -> Verdict:
    """The condition TestsPassed."""
    return run.verdict if run else waiting("no run has ended yet")


def _of(pod: Object) -> Run | None:
    """The run a pod was, once it has ended."""
    statuses = pod["status"].get("containerStatuses") or ({},)
    ended = (statuses[0].get("state") or {}).get("terminated") or {}
    if not ended.get("startedAt") or not ended.get("finishedAt"):
        return None
    order = pod["metadata"].get("labels", {}).get(ORDER, "")
    times = {"began": ended["startedAt"], "ended": ended["finishedAt"], "order": order}
    try:
        said: Any = json.loads(ended.get("message") or "")
    except ValueError:
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("passed"), int):
        # It was not our program that had the last word.
        log = str(ended.get("message", "")).strip()
        why = f"the pod ended with {ended.get('exitCode')} ({ended.get('reason', '')})" + (f": {log}" if log else "")
        said = {"error": why}
    return _read({**said, **times})


def _read(said: Mapping[str, Any]) -> Run:
    known: dict[str, Any] = {name: value for name, value in said.items() if name in Run.__dataclass_fields__}
    known["began"], known["ended"] = (datetime.fromisoformat(said[name]) for name in ("began", "ended"))
    return Run(**known)
