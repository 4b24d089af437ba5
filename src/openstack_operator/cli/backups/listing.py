"""`backup list`: the schedules of a namespace, and a table of its backups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...plan import Object
from ...plan.times import time_stamp
from ...runtime.kubernetes.client import Client
from ..inspection.commands import NOT_READY, READY
from ..inspection.session import run
from ..inspection.snapshot import read
from ..inspection.state import is_ready, printed, subject
from ..inspection.table import age_of, aligned
from ..terminal import Color, print_line
from .state import BACKUP, SCHEDULE, backup_state, cause_of, has_failed, recoverable_range, schedule_of, status_of

_COLUMNS = ("BACKUP", "SCHEDULE", "AGE", "SIZE", "VERIFIED", "STATE")
_WIDEST = 200
"""Letters of a state."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    namespace: str = "openstack"
    context: str | None = None


def show_backups(options: Options) -> int:
    """Print the schedules and the backups. Returns 0 if all of them are as wanted, 1 if one is not, and 2 if there is
    none, or if they may not be listed.
    """
    return run(options.context, lambda client: _show(client, options))


async def _show(client: Client, options: Options) -> int:
    snapshot = await read(client, options.namespace, (SCHEDULE, BACKUP), with_workloads=False, with_pods=False)
    snapshot.check_complete()
    schedules = [each for each in snapshot.resources if each["kind"] == SCHEDULE.kind]
    backups = [each for each in snapshot.resources if each["kind"] == BACKUP.kind]
    if not snapshot.resources:
        text = f"there is no {BACKUP.kind} and no {SCHEDULE.kind} in namespace {options.namespace!r}"
        raise LookupError(f"{text}; name another one with -n")
    for schedule in sorted(schedules, key=subject):
        for line, color in _schedule_lines(schedule, snapshot.now):
            print_line(printed(line), color)
    if schedules and backups:
        print_line("")
    for line, color in _table(backups, snapshot.now):
        print_line(line, color)
    return READY if all(map(is_ready, snapshot.resources)) else NOT_READY


def _schedule_lines(schedule: Object, now: datetime) -> Iterator[tuple[str, Color | None]]:
    """Yield the state of a schedule, its newest backup, and how far its archive reaches."""
    spec, status = schedule["spec"], status_of(schedule)
    state = "Ready" if is_ready(schedule) else cause_of(schedule)
    color = Color.RED if has_failed(schedule) else None if is_ready(schedule) else Color.YELLOW
    begin = "suspended" if spec.get("suspend") else f"next {status.get('nextScheduleTime') or 'not known yet'}"
    yield f"{subject(schedule)}: {spec['schedule']} ({spec.get('timeZone', 'UTC')}), {begin}; {state}", color
    if status.get("active"):
        yield f"  runs: {status['active']}", None
    newest, age = status.get("lastBackup"), age_of(status.get("lastSuccessfulTime") or "", now)
    yield f"  newest backup: {f'{newest}, {age} old' if newest else 'none yet'}", None
    if not spec.get("archive"):
        return
    if (seconds := recoverable_range(schedule)) is None:
        yield "  archive: a restore cannot use it yet: it needs a backup that began after it", Color.YELLOW
        return
    earliest, latest = seconds
    yield f"  a restore goes to any second from {time_stamp(earliest)} to {time_stamp(latest)}", None
    # While it works, the status has full minutes.
    yield f"  the archive is at most {max(0, int((now - latest).total_seconds()))} s behind", None


def _table(backups: Sequence[Object], now: datetime) -> list[tuple[str, Color | None]]:
    """Return the table of backups, the newest first."""
    if not backups:
        return []
    newest = sorted(backups, key=lambda each: each["metadata"].get("creationTimestamp", ""), reverse=True)
    states = [backup_state(each, now) for each in newest]
    rows = [_row(each, printed(text), now) for each, (text, _) in zip(newest, states, strict=True)]
    head, *lines = aligned([_COLUMNS, *rows])
    return [(head, None), *zip(lines, (color for _, color in states), strict=True)]


def _row(backup: Object, state: str, now: datetime) -> Sequence[str]:
    status = status_of(backup)
    return (
        backup["metadata"]["name"],
        schedule_of(backup),
        age_of(status.get("completed") or "", now),
        printed(status.get("size") or ""),
        f"{age_of(status['verified'], now)} ago" if status.get("verified") else "no",
        state if len(state) <= _WIDEST else f"{state[: _WIDEST - 1]}…",
    )
