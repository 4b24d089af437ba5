"""The state of backups and of their schedules in words."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ...kube import child_verdict, conditions
from ...plan import Object, State
from ...plan.times import valid_time
from ..inspection.state import DELETING, reason_of
from ..inspection.table import age_of
from ..kind_index import KINDS, KindEntry
from ..terminal import Color

_BY_KIND = {each.kind: each for each in KINDS if each.kind.startswith(("OpenStackBackup", "OpenStackRestore"))}
BACKUP: KindEntry = _BY_KIND["OpenStackBackup"]
SCHEDULE: KindEntry = _BY_KIND["OpenStackBackupSchedule"]
RESTORE: KindEntry = _BY_KIND["OpenStackRestore"]


def status_of(live: Object) -> Mapping[str, Any]:
    """Return the status; empty before the operator wrote one."""
    return live.get("status") or {}


def has_failed(live: Object) -> bool:
    """Return True if something of a resource will not get better by itself soon."""
    return child_verdict(live).state is State.FAILED


def cause_of(live: Object) -> str:
    """Return why a resource is not ready: `InvalidSpec: spec.backup: …`."""
    message = conditions(live).get("Ready", {}).get("message", "")
    reason = reason_of(live)
    return f"{reason}: {message}" if message and reason != DELETING else reason


def backup_state(live: Object, now: datetime) -> tuple[str, Color | None]:
    """Return the state of a backup in words, and its color."""
    status, cause = status_of(live), cause_of(live)
    if live["metadata"].get("deletionTimestamp"):
        return "being deleted; the backup stays", Color.YELLOW
    if status.get("completed"):
        is_unverified = bool(live["spec"].get("verify")) and not status.get("verified")
        if has_failed(live):
            return f"complete, {'cannot be used' if is_unverified else 'but'}: {cause}", Color.RED
        return ("complete, is being verified", Color.YELLOW) if is_unverified else ("complete", None)
    if has_failed(live):
        return f"failed: {cause}", Color.RED
    age = age_of(live["metadata"].get("creationTimestamp", ""), now)
    return f"running for {age}: {cause}", Color.YELLOW


def schedule_of(backup: Object) -> str:
    """Return the name of the schedule that made a backup; empty for one that a user made."""
    owners = backup["metadata"].get("ownerReferences") or ()
    return next((each["name"] for each in owners if each.get("controller") and each["kind"] == SCHEDULE.kind), "")


def recoverable_range(schedule: Object) -> tuple[datetime, datetime] | None:
    """Return the first and the last second to which a restore can go by the archive of a schedule; None if it has none
    yet.
    """
    status = status_of(schedule)
    begin, end = valid_time(status.get("firstRecoverableTime")), valid_time(status.get("lastRecoverableTime"))
    return (begin, end) if begin and end else None
