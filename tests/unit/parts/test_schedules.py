"""Times of schedules in time zones, also on the days on which clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from openstack_operator.parts.schedules import last_time, next_time, time_zone

BERLIN = time_zone("Europe/Berlin")
SCHEDULES = ("30 1 * * *", "30 2 * * *", "0 3 * * *", "15 */6 * * *", "*/20 * * * *", "0 0 1 * *", "@weekly")
CHANGES = (datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_the_newest_time_is_the_one_that_came_next(schedule: str, change: datetime) -> None:
    """Wherever one looks from, so that no backup is missed and none is made twice."""
    begin, end = change - timedelta(days=40), change + timedelta(days=2)
    times = [begin]
    while times[-1] < end:
        times.append(next_time(schedule, times[-1], BERLIN))
    assert len(set(times)) == len(times)
    for earlier, later in pairwise(times[1:]):
        assert last_time(schedule, earlier, BERLIN) == earlier
        assert last_time(schedule, later - timedelta(seconds=1), BERLIN) == earlier


def test_a_skipped_time_comes_later_and_a_repeated_one_once() -> None:
    spring, autumn = datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert next_time("30 2 * * *", spring, BERLIN) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    first = next_time("30 2 * * *", autumn, BERLIN)
    assert first == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert next_time("30 2 * * *", first, BERLIN) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


def test_equal_moments_of_two_zones_have_times_of_their_own() -> None:
    after = datetime(2026, 1, 1, tzinfo=UTC)
    assert next_time("0 1 * * *", after, UTC) == datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert next_time("0 1 * * *", after, time_zone("Asia/Tokyo")) == datetime(2026, 1, 1, 16, tzinfo=UTC)


@pytest.mark.parametrize("name", ["Europe/Atlantis", "../../etc/passwd", "/etc/localtime", "Europe", ""])
def test_another_text_is_no_time_zone(name: str) -> None:
    with pytest.raises(ValueError, match="there is no time zone"):
        time_zone(name)
