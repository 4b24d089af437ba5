"""Times of cron schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache, partial
from itertools import islice, pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

ALIASES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}
_SAMPLE = 60
"""Times of a schedule by which its shortest pauses are known; most repeat after a week."""


@lru_cache(maxsize=64)
def next_times(schedule: str, after: datetime, count: int = _SAMPLE) -> Sequence[datetime]:
    """Return the next times of a schedule, one or more. Raises ValueError for what is no schedule, and for one that no
    date has.
    """
    try:
        times = tuple(islice(CronSim(ALIASES.get(schedule, schedule), after), count))
    except CronSimError as error:
        raise ValueError(str(error)) from error
    if not times:
        raise ValueError("no date matches it")
    return times


def next_time(schedule: str, after: datetime, zone: tzinfo) -> datetime:
    """Return the next time, in UTC, of a schedule in a time zone. Raises ValueError as `next_times`."""
    # Not by `next_times`: its cache takes equal moments of two zones for one.
    return _first(CronSim, schedule, after.astimezone(zone))


def last_time(schedule: str, until: datetime, zone: tzinfo) -> datetime:
    """Return the newest time, in UTC, of a schedule in a time zone that is not later than `until`. Raises ValueError as
    `next_times`.
    """
    begin = until.replace(microsecond=0) + timedelta(seconds=1)
    return _first(partial(CronSim, reverse=True), schedule, begin.astimezone(zone))


def _first(times: Callable[[str, datetime], Iterator[datetime]], schedule: str, begin: datetime) -> datetime:
    try:
        return next(times(ALIASES.get(schedule, schedule), begin)).astimezone(UTC)
    except (CronSimError, StopIteration) as error:
        raise ValueError(str(error) or "no date matches it") from error


def time_zone(name: str) -> tzinfo:
    """Return the time zone of that name. Raises ValueError if there is none."""
    if name in {"UTC", "Etc/UTC"}:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}; write one such as Europe/Berlin, or UTC") from None


def shortest_span(schedule: str, after: datetime, intervals: int, least: timedelta = timedelta()) -> timedelta:
    """Return the shortest time that so many intervals of a schedule take, each at least `least`. Raises ValueError as
    `next_times`.
    """
    times = next_times(schedule, after, _SAMPLE + intervals)
    pauses = [max(end - begin, least) for begin, end in pairwise(times)]
    return min(sum(pauses[at : at + intervals], timedelta()) for at in range(len(pauses) - intervals + 1))


def duration_text(span: timedelta) -> str:
    """Return a duration as people say it: `2 h 24 min`, `7 d`."""
    minutes = -(-int(span.total_seconds()) // 60)
    parts = ((minutes // 1440, "d"), (minutes % 1440 // 60, "h"), (minutes % 60, "min"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 min"
