"""Times of cron schedules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise

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
