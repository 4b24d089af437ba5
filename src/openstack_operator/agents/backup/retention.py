"""Remove old backups of a schedule, whole ones alone, and parts of backups that never became complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .binlog import sequence
from .bucket import DeletionRefusedError
from .chain import Archive, open_archives
from .compaction import merge_chain, remove_unneeded
from .repository import Repository, open_repository, rfc3339
from .run import RunError, main, say, settings

_PARTS_LIFE = timedelta(days=2)
"""Age at which a part without a manifest belongs to no backup that runs: these end within a day."""
_SKEW = timedelta(minutes=5)
_TIME_DIGITS = len("202601010000")
_BATCH = 500
"""Snapshots in one command."""
_MAX_NAMED = 5
"""Maximum number of snapshots that an error names."""
_PRUNE_LIMITS = ("--max-unused=10%", "--max-repack-size=20G")
"""A tenth of the data may be such as no snapshot needs any more; one run writes at most 20 GiB again."""
_MAX_MANIFEST = 16 << 20
_PERIODS: Mapping[str, Callable[[datetime], object]] = {
    "hourly": lambda at: (at.date(), at.hour),
    "daily": lambda at: at.date(),
    "weekly": lambda at: at.isocalendar()[:2],
    "monthly": lambda at: (at.year, at.month),
}


@dataclass(frozen=True)
class Snapshot:
    """A snapshot of a backup of this cloud."""

    identifier: str
    backup: str
    """Name of the backup."""
    is_manifest: bool
    time: datetime
    base: str = ""
    """Snapshot without which this one has no data."""
    schedule: str | None = None
    """Name of the schedule that made the backup, a dash for none; None in a manifest of an earlier version."""


@dataclass(frozen=True)
class Selection:
    """Snapshots to remove, and what stays."""

    manifests: Sequence[str]
    """Manifests of old backups: without them, these exist no more."""
    parts: Sequence[str]
    """Other snapshots that belong to no backup then."""
    removed: int
    """Number of old backups."""
    remaining: int
    """Number of complete backups of the cloud that stay."""
    oldest: datetime
    """Time of the oldest of these."""


def retain(config: Path) -> dict[str, Any]:
    """Remove old backups, then the data that they alone had. Return `backups`, the number of complete ones of the cloud
    in the repository, the time of the `oldest`, how many were `removed`, the number of other snapshots, `parts`, and
    why the server `refused` to delete; it is empty if it did not. Raise RunError. A run that is killed is completed by
    the next one. An archive of the cloud is merged, too, and what no backup needs of it removed: `archive` has the
    number of objects that were `merged` and `removed`, that of `foreign` ones, and the time of the `first` backup from
    which a restore can go on by it; it is empty without an archive.
    """
    run = settings(config)
    with open_repository(config) as repository:
        repository.unlock()
        selection = select_old(read_cloud(repository, run), run, datetime.now(UTC))
        try:
            # In this order: a backup without one of its databases must not look like a backup.
            forget(repository, run, selection.manifests)
            forget(repository, run, selection.parts)
            # Also if nothing was forgotten: the run before may have been killed.
            repository.delete("prune", *_PRUNE_LIMITS)
        except DeletionRefusedError as error:
            manifests = [each for each in read_cloud(repository, run) if each.is_manifest]
            number, oldest = len({each.backup for each in manifests}), min(each.time for each in manifests)
            return {**remaining(number, oldest), "removed": 0, "parts": 0, "refused": str(error)}
        result = remaining(selection.remaining, selection.oldest)
        result |= {"removed": selection.removed, "parts": len(selection.parts)}
        try:
            return {**result, "archive": _compact(repository, run), "refused": ""}
        except DeletionRefusedError as error:
            return {**result, "archive": {}, "refused": str(error)}


def _compact(repository: Repository, run: Mapping[str, Any]) -> dict[str, Any]:
    """Merge and shorten all archives of the cloud; return what became of them. Raise RunError."""
    archives = open_archives(repository, run["cloud"])
    if not archives:
        return {}
    manifests = [each for each in read_cloud(repository, run) if each.is_manifest]
    backups = [(each.time, _positions(repository, each.identifier)) for each in manifests]
    merged = removed = 0
    for database, archive in archives.items():
        chains, now = archive.chains(), datetime.now(UTC).timestamp()
        numbers = [positions[database] for _, positions in backups if database in positions]
        for chain in chains:
            removed += remove_unneeded(archive, chain, numbers, is_newest=chain == chains[-1])
            merged += merge_chain(archive, chain, now)
        say(
            f"the archive of {database}: {merged} objects were merged and {removed} removed until now{archive.remark()}"
        )
    earliest = first_recoverable(archives, backups)
    return {
        "merged": merged,
        "removed": removed,
        "foreign": sum(len(archive.foreign) for archive in archives.values()),
        "first": rfc3339(earliest.isoformat()) if earliest else "",
    }


def _positions(repository: Repository, snapshot: str) -> dict[str, int]:
    """Return the number of the last change in a backup, by database, of those that a restore can go on from. Raise
    RunError.
    """
    manifest = json.loads(repository.read(snapshot, "manifest.json", _MAX_MANIFEST))
    entries = manifest["databases"]
    entries = entries.values() if isinstance(entries, dict) else entries
    positions: dict[str, int] = {}
    for entry in entries:
        # A replay refuses another position, as of several domains, or of no log.
        with suppress(RunError):
            positions[str(entry["name"])] = sequence(entry.get("gtid") or "")
    return positions


def first_recoverable(
    archives: Mapping[str, Archive], backups: Sequence[tuple[datetime, Mapping[str, int]]]
) -> datetime | None:
    """Return the time of the first backup whose databases all have a chain that goes on after it; None if there is
    none. Databases of which the newest backup has nothing do not count. Raise RunError.
    """
    reaches = {
        name: [reach for chain in archive.chains() if (reach := archive.reach(chain))]
        for name, archive in archives.items()
        if name in max(backups, key=lambda backup: backup[0])[1]
    }
    times = [
        time
        for time, positions in backups
        if all(
            name in positions and any(begin - 1 <= positions[name] <= end for begin, end in spans)
            for name, spans in reaches.items()
        )
    ]
    return min(times, default=None) if reaches else None


def remaining(backups: int, oldest: datetime) -> dict[str, Any]:
    """Return the part of the result about the backups that stay."""
    return {"backups": backups, "oldest": rfc3339(oldest.isoformat())}


def read_cloud(repository: Repository, run: Mapping[str, Any]) -> list[Snapshot]:
    """Return the snapshots of the cloud. Raise RunError."""
    return read_snapshots(repository.snapshots(host=run["cloud"]))


def forget(repository: Repository, run: Mapping[str, Any], identifiers: Sequence[str]) -> None:
    """Remove snapshots. Raise RunError, also if one of them is still there: restic only warns of that."""
    for begin in range(0, len(identifiers), _BATCH):
        batch = identifiers[begin : begin + _BATCH]
        say(f"removing {len(batch)} snapshots: {' '.join(each[:8] for each in batch)}")
        repository.delete("forget", *batch)
    if identifiers and (rest := {each.identifier for each in read_cloud(repository, run)} & {*identifiers}):
        raise RunError(
            f"restic did not remove the snapshots {', '.join(sorted(rest)[:_MAX_NAMED])}; see the log of the pod"
        )


def read_snapshots(entries: Iterable[Mapping[str, Any]]) -> list[Snapshot]:
    """Return the snapshots that backups made. Others in the repository belong to other programs."""
    snapshots: list[Snapshot] = []
    for entry in entries:
        tags = dict(tag.split("=", 1) for tag in entry.get("tags") or () if "=" in tag)
        if tags.keys() >= {"kind", "backup"}:
            time = datetime.fromisoformat(str(entry["time"])).astimezone(UTC)
            is_manifest, base = tags["kind"] == "manifest", tags.get("base", "")
            schedule = tags.get("schedule")
            snapshots.append(Snapshot(str(entry["id"]), tags["backup"], is_manifest, time, base, schedule))
    return snapshots


def select_old(snapshots: Sequence[Snapshot], run: Mapping[str, Any], now: datetime) -> Selection:
    """Return what to remove. Raise RunError if the newest backup of the schedule is not there."""
    prefix = str(run["prefix"])
    complete = {each.backup for each in snapshots if each.is_manifest}
    last = scheduled_time(prefix, run["newest"])
    times = {
        each.backup: at
        for each in snapshots
        if each.is_manifest
        and each.schedule in (None, run["schedule"])
        and (at := scheduled_time(prefix, each.backup))
        # The newest one is known from its resource; it may be late, as after an outage of the operator.
        and (each.backup == run["newest"] or (last and at <= last and _is_timely(each, at)))
    }
    if run["newest"] not in times:
        raise RunError(
            f"backup {run['newest']!r} is not in the repository, so nothing is removed; check that spec.repository is"
            " the one of the backups"
        )
    newest = max(times.values())
    staying = select_staying(times, run["counts"]) if run["counts"] else set(times)
    old = {name for name, at in times.items() if name not in staying and at < newest}
    remaining_names = complete - old

    def is_left_over(part: Snapshot) -> bool:
        """Return True for a part of a backup that is none: one just removed, one that a killed run was removing, or one
        that died.
        """
        if part.is_manifest or part.backup in remaining_names:
            return False
        at = scheduled_time(prefix, part.backup)
        # A schedule starts no backup while an earlier one runs.
        return part.backup in old or (at is not None and at < newest) or part.time < now - _PARTS_LIFE

    left_over = {each.identifier for each in snapshots if is_left_over(each)}
    needed = bases(snapshots, [each for each in snapshots if each.identifier not in left_over])
    return Selection(
        manifests=[each.identifier for each in snapshots if each.is_manifest and each.backup in old],
        parts=[each.identifier for each in snapshots if each.identifier in left_over - needed],
        removed=len(old),
        remaining=len(remaining_names),
        oldest=min(each.time for each in snapshots if each.is_manifest and each.backup in remaining_names),
    )


def _is_timely(manifest: Snapshot, at: datetime) -> bool:
    """Return True if a backup was complete within two days after its time. Manifests of earlier versions do not name
    their schedule: who may create backups could give them names of any time, and one that counted would have others
    removed in its place. One that was late in truth stays.
    """
    return at - _SKEW <= manifest.time <= at + _PARTS_LIFE


def bases(snapshots: Iterable[Snapshot], staying: Iterable[Snapshot]) -> set[str]:
    """Return the snapshots without which those that stay lack data: streams of RBD images go on from earlier ones."""
    base_of = {each.identifier: each.base for each in snapshots}
    needed = set[str]()
    for each in staying:
        base = each.base
        while base and base not in needed:
            needed.add(base)
            base = base_of.get(base, "")
    return needed


def scheduled_time(prefix: str, name: str) -> datetime | None:
    """Return the time of the schedule in the name of its backup; None for another backup."""
    digits = name.removeprefix(f"{prefix}-")
    if digits == name or len(digits) != _TIME_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    try:
        return datetime.strptime(digits, "%Y%m%d%H%M").replace(tzinfo=UTC)
    except ValueError:
        return None


def select_staying(times: Mapping[str, datetime], counts: Mapping[str, int]) -> set[str]:
    """Return the names of the backups that stay, as `restic forget` selects snapshots: the newest one of each period,
    until there are as many as its count; and the oldest of all while there are fewer.
    """
    ordered = sorted(times, key=lambda name: times[name], reverse=True)
    staying = set(ordered[: counts.get("last", 0)])
    for name, period in _PERIODS.items():
        remaining, last = counts.get(name, 0), None
        for backup in ordered:
            current = period(times[backup])
            if remaining and (current != last or backup == ordered[-1]):
                staying.add(backup)
                remaining, last = remaining - 1, current
    return staying


if __name__ == "__main__":
    main(retain)
