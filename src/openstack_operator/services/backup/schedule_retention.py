"""Removal of a schedule's old backups: one run after each backup, and what it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ... import kube
from ...api import SecretKeyRef
from ...plan import READY, Context, Object, State, Step, Verdict, failed, key, waiting
from ...plan.times import valid_time
from .archives import foreign_objects
from .databases import server_image
from .model import OpenStackBackupScheduleSpec
from .pods import Image, Run, with_results
from .repository import repository
from .schedule_record import History, prefix

_RESULTS, _CURRENT = "retention", "removal"
"""Fields of the record."""
_SECRET = "removal"  # noqa: S105  (the end of a name)
_LONGEST = 6 * 3600
"""Seconds of a run. One that is ended goes on in the next one."""


@dataclass(frozen=True, kw_only=True)
class Removal:
    """The removal of old backups, as far as it is."""

    history: History
    """With the result."""
    verdict: Verdict
    runs: Sequence[Run] = ()
    """The run, if it has not ended."""
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def backups(self) -> int | None:
        """Number of complete backups in the repository, if known."""
        number = self.result.get("backups")
        return number if isinstance(number, int) else None

    @property
    def oldest(self) -> datetime | None:
        """Time at which the oldest backup of the cloud in the repository was complete, if known."""
        return valid_time(self.result.get("oldest"))

    @property
    def first_recoverable(self) -> datetime | None:
        """Time of the first backup in the repository from which a restore can go on by the archive, if known."""
        archive = self.result.get("archive")
        return valid_time(archive.get("first")) if isinstance(archive, dict) else None

    def jobs(self, ctx: Context[Any]) -> tuple[Object, ...]:
        """Return its Job, if it has not ended. A backup is as good while it runs."""
        return tuple(kube.annotated(run.job(ctx), {kube.BESIDE: "true"}) for run in self.runs)


def login(ctx: Context[OpenStackBackupScheduleSpec]) -> list[Step]:
    """Return Secret `<owner>-removal`, if there is retention: only its pods have a login that may delete."""
    retention = ctx.spec.retention
    if not retention:
        return []
    keys: dict[str, SecretKeyRef] = {}
    if retention.access_key_ref and retention.secret_key_ref:
        keys = {"accessKey": retention.access_key_ref, "secretKey": retention.secret_key_ref}
    return [repository(ctx, keys, suffix=_SECRET)]


def needs_image(ctx: Context[OpenStackBackupScheduleSpec], past: History) -> bool:
    """Return True if a removal is to run, for which an image has to be found."""
    return _is_due(ctx, past)


def removal(ctx: Context[OpenStackBackupScheduleSpec], past: History, *, is_usable: bool) -> Removal:
    """Return the removal that follows the newest complete backup, or the one before, while that runs. None begins until
    the newest backup is known to be usable: it would remove older ones that are.
    """
    if not ctx.spec.retention:
        text = "spec.retention is unset: nothing of the archive is merged or removed" if ctx.spec.archive else ""
        return Removal(history=past, verdict=Verdict(State.READY, text))
    last = _last(past)
    if not _is_due(ctx, past):
        return Removal(history=past, verdict=_verdict(last), result=last)
    if not _current(past) and not is_usable:
        text = "old backups stay until the newest one is verified"
        return Removal(history=past, verdict=Verdict(State.READY, text), result=last)
    newest, image = past.success.name if past.success else "", _image(ctx)
    name = _current(past) or newest
    if image and name != newest and _has_failed(ctx, _run(ctx, name, image)):
        # Its backup was perhaps removed by hand: it will never succeed.
        name = newest
    if image is None:
        text = "waiting for a MariaDB, whose image removes old backups"
        return Removal(history=past, verdict=waiting(text), result=last)
    stored, unfinished = with_results(ctx, past.stored, {name: _run(ctx, name, image)}, _RESULTS)
    if not unfinished:
        past = replace(past, stored={key: value for key, value in stored.items() if key != _CURRENT})
        result = _last(past)
        return Removal(history=past, verdict=_verdict(result), result=result)
    # The result of the last one stays until there is another one.
    beginning = {_RESULTS: _results(past), _CURRENT: {"backup": name}}
    past = replace(past, stored={**stored, **beginning})
    return Removal(history=past, verdict=READY, runs=tuple(unfinished.values()), result=last)


def _has_failed(ctx: Context[Any], run: Run) -> bool:
    live = ctx.children.get(key(run.job(ctx)))
    return live is not None and kube.judge(live).state is State.FAILED


def _is_due(ctx: Context[OpenStackBackupScheduleSpec], past: History) -> bool:
    if not ctx.spec.retention or ctx.spec.suspend or not past.success:
        return False
    return past.success.name not in _results(past)


def _results(past: History) -> Mapping[str, Any]:
    results = past.stored.get(_RESULTS)
    return results if isinstance(results, dict) and all(isinstance(each, dict) for each in results.values()) else {}


def _last(past: History) -> Mapping[str, Any]:
    """Return the result of the last removal that has ended; empty if there is none."""
    return next(iter(_results(past).values()), {})


def _current(past: History) -> str:
    """Return the backup that the present run follows; empty if there is no run. A backup that ends meanwhile must not
    end it: it may take longer than the time between two.
    """
    current = past.stored.get(_CURRENT)
    return str(current.get("backup") or "") if isinstance(current, dict) else ""


def _image(ctx: Context[Any]) -> Image | None:
    """Return the image of a database's server; None if there is none. It is not on record, which others may write: its
    pods may delete backups.
    """
    return server_image(ctx.facts.get("databases", ()))


def _run(ctx: Context[OpenStackBackupScheduleSpec], newest: str, image: Image) -> Run:
    retention = ctx.spec.retention
    assert retention
    counts = {
        "last": retention.keep_last,
        "hourly": retention.hourly,
        "daily": retention.daily,
        "weekly": retention.weekly,
        "monthly": retention.monthly,
    }
    return Run(
        component="retention",
        program="retention",
        parameters={
            "cloud": ctx.namespace,
            "schedule": ctx.owner,
            "prefix": prefix(ctx),
            "newest": newest,
            "counts": {name: count for name, count in counts.items() if count},
        },
        image=image,
        login_secret=_SECRET,
        memory="512Mi",
        deadline=_LONGEST,
    )


def _verdict(result: Mapping[str, Any]) -> Verdict:
    """Return what the last removal came to."""
    if reason := result.get("refused"):
        # Not by rules of the bucket, which know nothing of what several backups share.
        advice = (
            "allow the login to delete objects, or set another one as accessKeyRef and secretKeyRef of spec.retention;"
            " a rule of the bucket that deletes old objects would destroy newer backups and the archive, too"
        )
        return failed(f"old backups stay: {reason}; {advice}", "DeletionRefused")
    archive = result.get("archive")
    archive = archive if isinstance(archive, dict) else {}
    counts = {
        "old backups removed": result.get("removed"),
        "objects of the archive merged": archive.get("merged"),
        "objects of the archive removed": archive.get("removed"),
    }
    texts = [f"{name}: {count}" for name, count in counts.items() if count]
    texts.append(foreign_objects(archive.get("foreign")))
    return Verdict(State.READY, "; ".join(filter(None, texts)))
