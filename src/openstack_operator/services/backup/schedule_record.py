"""Backups of an OpenStackBackupSchedule: the resources that exist, and a record that outlives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ... import kube
from ...plan import NAME_LIMIT, Context, Object, State, Verdict, fitting
from ...plan.times import not_ahead, valid_time
from . import record
from .model import BACKUP, OF_SCHEDULE, OpenStackBackupScheduleSpec, Repository

TOO_LATE = "TooLate"
"""Reason of a backup that ends without its jobs."""
_LONGEST = timedelta(days=2)
"""Time after which a backup that cannot begin, as without a database, makes room for another one."""
_SKEW = timedelta(minutes=5)
"""Time by which clocks of two replicas of the operator differ at most."""
_DIGITS = len("-202601010000")
_MARKED_SINCE = "markedSince"
"""Field of the record: the time since which backups of the schedule have the annotation OF_SCHEDULE."""


@dataclass(frozen=True, kw_only=True)
class Backup:
    """An OpenStackBackup of a schedule."""

    name: str
    at: datetime
    """Time of the schedule."""
    live: Object

    @property
    def completed(self) -> datetime | None:
        """Time at which it was complete; None if it is not."""
        return valid_time((self.live.get("status") or {}).get("completed"))

    @property
    def verified(self) -> datetime | None:
        """Time at which it was restored and used; None if it was not."""
        return valid_time((self.live.get("status") or {}).get("verified"))

    @property
    def verdict(self) -> Verdict:
        """Its Ready condition."""
        return kube.child_verdict(self.live)

    @property
    def awaits_verification(self) -> bool:
        """True if it is complete and is still to be verified."""
        is_wanted = bool((self.live.get("spec") or {}).get("verify"))
        return is_wanted and bool(self.completed) and not self.verified and not self.has_stalled

    @property
    def has_stalled(self) -> bool:
        """True if a part of it failed for good."""
        return self.verdict.state is State.FAILED

    @property
    def has_failed(self) -> bool:
        """True if it will never be complete."""
        return not self.completed and self.verdict.reason == TOO_LATE

    def is_over(self, now: datetime) -> bool:
        """Return True if another backup may begin."""
        created = valid_time(self.live["metadata"].get("creationTimestamp")) or self.at
        return bool(self.completed) or self.has_failed or now >= created + _LONGEST


@dataclass(frozen=True, kw_only=True)
class Success:
    """The newest complete backup."""

    name: str
    at: datetime
    """Time of the schedule."""
    completed: datetime

    def dump(self) -> dict[str, str]:
        """Return JSON for `load`."""
        return {"name": self.name, "at": record.stamp(self.at), "completed": record.stamp(self.completed)}

    @classmethod
    def load(cls, values: object) -> Success | None:
        """Return what `dump` returned; None for other values."""
        if not isinstance(values, dict) or not isinstance(values.get("name"), str):
            return None
        at, completed = valid_time(values.get("at")), valid_time(values.get("completed"))
        return cls(name=values["name"], at=at, completed=completed) if at and completed else None


@dataclass(frozen=True, kw_only=True)
class History:
    """Times of a schedule that are over, and what became of them."""

    schedule: str
    """Schedule and time zone; empty while it is suspended."""
    since: datetime
    """Time from which on the schedule has been as it is."""
    last: datetime
    """Newest time at which a backup was started or left out; at first the time before which none is."""
    left_out: str = ""
    """Reason for which that time was left out; empty if it was not."""
    success: Success | None = None
    stored: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """All of the record, with what removals of old backups left there."""

    def dump(self) -> dict[str, Any]:
        """Return the record."""
        return {
            **self.stored,
            "schedule": self.schedule,
            "since": record.stamp(self.since),
            "last": record.stamp(self.last),
            "leftOut": self.left_out,
            "success": self.success.dump() if self.success else None,
        }


def prefix(ctx: Context[Any]) -> str:
    """Return the name of each backup of the schedule without its time."""
    return fitting(ctx.owner, NAME_LIMIT - _DIGITS)


def backup_name(ctx: Context[Any], at: datetime) -> str:
    """Return the name of the backup of a time."""
    return f"{prefix(ctx)}-{at:%Y%m%d%H%M}"


def backups(ctx: Context[Any]) -> list[Backup]:
    """Return the backups of the schedule whose resources exist, the newest first. The one on record is one of them:
    an earlier version of the operator, to which a user went back, removes the annotation.
    """
    stored = record.stored(ctx)
    success, marked_since = Success.load(stored.get("success")), _marked_since(ctx, stored)
    existing = [
        Backup(name=name, at=at, live=live)
        for (kind, name), live in ctx.children.items()
        if kind == BACKUP.handle and not live["metadata"].get("deletionTimestamp") and (at := _time(ctx, name))
        if _is_own(ctx, live, at, marked_since) or (success and _is_on_record(live, name, success))
    ]
    return sorted(existing, key=lambda each: each.at, reverse=True)


def _marked_since(ctx: Context[Any], stored: Mapping[str, Any]) -> datetime:
    return valid_time(stored.get(_MARKED_SINCE)) or ctx.now


def _is_own(ctx: Context[Any], live: Object, at: datetime, marked_since: datetime) -> bool:
    """Return True if the schedule made a backup, or if an earlier version of the operator may have. Who may create
    backups can give one its name and labels, and one of a later time, or in another repository, would be in the place
    of those that are due; only the operator may write the annotation (`admission.backups`).
    """
    metadata = live["metadata"]
    created = valid_time(metadata.get("creationTimestamp"))
    if at > ctx.now + _SKEW or (created and created < at - _SKEW):
        return False
    if (metadata.get("annotations") or {}).get(OF_SCHEDULE) != ctx.owner and created and created > marked_since:
        return False
    try:
        return Repository.from_spec((live.get("spec") or {}).get("repository") or {}) == ctx.spec.repository
    except ValueError:
        return False


def _is_on_record(live: Object, name: str, success: Success) -> bool:
    """Return True if this is the newest complete backup, and not one that a user made later with the same name."""
    created = valid_time(live["metadata"].get("creationTimestamp"))
    return success.name == name and created is not None and created <= success.completed


def _time(ctx: Context[Any], name: str) -> datetime | None:
    """Return the time of the schedule for which a backup has its name; None if `backup_name` does not give it."""
    try:
        at = datetime.strptime(name.rpartition("-")[2], "%Y%m%d%H%M").replace(tzinfo=UTC)
    except ValueError:
        return None
    return at if backup_name(ctx, at) == name else None


def history(ctx: Context[OpenStackBackupScheduleSpec]) -> History:
    """Return what is known now. A schedule that changed, or is no longer suspended, begins again: no earlier time of it
    was missed.
    """
    stored = record.stored(ctx)
    stored = {**stored, _MARKED_SINCE: record.stamp(_marked_since(ctx, stored))}
    spec = ctx.spec
    schedule = "" if spec.suspend else f"{spec.schedule} {spec.time_zone}"
    success = Success.load(stored.get("success"))
    # What a clock that was ahead once has left would be the newest one for years.
    latest = ctx.now + _SKEW
    if success and success.at > latest:
        success = None
    for each in backups(ctx):
        if each.completed and each.at <= latest and (success is None or each.at > success.at):
            success = Success(name=each.name, at=each.at, completed=each.completed)
    since, last = valid_time(stored.get("since")), valid_time(stored.get("last"))
    if since is None or last is None or stored.get("schedule") != schedule:
        return History(schedule=schedule, since=ctx.now, last=ctx.now, success=success, stored=stored)
    # The resource may have been created, and the record not been written any more.
    last = not_ahead(max([last, *(each.at for each in backups(ctx))]), ctx.now)
    left_out = stored.get("leftOut")
    return History(
        schedule=schedule,
        since=not_ahead(since, ctx.now),
        last=last,
        left_out=left_out if isinstance(left_out, str) else "",
        success=success,
        stored=stored,
    )


def newest_verified(ctx: Context[OpenStackBackupScheduleSpec], stored: object) -> Mapping[str, Any]:
    """Return `name` and time (`at`) of the backup that was verified last, also if its resource is gone; empty before
    there was one. `stored` is what this has returned before.
    """
    entries = [
        {"name": each.name, "at": record.stamp(each.verified)} for each in backups(ctx) if each.verified is not None
    ]
    if isinstance(stored, dict) and isinstance(stored.get("name"), str):
        entries.append(stored)
    times = [(at, entry) for entry in entries if (at := valid_time(entry.get("at"))) and at <= ctx.now + _SKEW]
    return max(times, key=lambda pair: pair[0])[1] if times else {}
