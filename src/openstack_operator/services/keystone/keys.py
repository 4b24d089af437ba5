"""Rotation of key repositories, as a function of the present keys and the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...parts.schedules import next_times
from ...plan import SpecError

MIN_INTERVAL = timedelta(minutes=10)
"""Shortest time between rotations. A server can read the tokens of other servers while it is at most one rotation
behind, and kubelets bring a changed Secret to their pods within two minutes, each at its own time.
"""


def due(schedule: str, after: datetime, field: str, ordered: datetime | None = None) -> datetime:
    """Return the time of the next rotation: the first one of the cron schedule later than the rotation at `after`, or
    the `ordered` one, but not before every pod has read those keys. Raise SpecError naming `field` for a bad schedule.
    """
    try:
        scheduled = next_times(schedule, after, 1)[0]
    except ValueError as error:
        text = f"{schedule!r} is not a schedule: {error}; write cron fields such as '0 0 * * 0'"
        raise SpecError(field, text) from error
    return max(min(scheduled, ordered) if ordered and ordered > after else scheduled, after + MIN_INTERVAL)


@dataclass(frozen=True)
class KeyRing:
    """Keys by index as Keystone stores them: 0 is staged, the highest is primary, the rest can still read."""

    keys: Mapping[int, str]
    rotated: datetime

    def rotate(self, now: datetime, keep: int, draw: Callable[[], str]) -> KeyRing:
        """Promote the staged key to primary and stage a new one; `keep` keys remain, including the staged one.

        Every server reads the staged key before it signs with it, so no token is ever refused (Keystone's
        administrator guide, fernet key rotation).
        """
        promoted = {max(self.keys) + 1: self.keys[0], 0: draw()}
        indexes = sorted(index for index in {**self.keys, **promoted} if index)[-(keep - 1) :]
        merged = {**self.keys, **promoted}
        return KeyRing({index: merged[index] for index in (0, *indexes)}, now)


def new_ring(now: datetime, draw: Callable[[], str]) -> KeyRing:
    """Return a staged and a primary key."""
    return KeyRing({0: draw(), 1: draw()}, now)
