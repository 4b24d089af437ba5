"""Rotation of key repositories, as a function of the keys held and the time it is."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from cronsim import CronSim, CronSimError

from ...plan import SpecError

ALIASES = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}


APART = timedelta(minutes=10)
"""Least time between rotations. A server reads what others sign while it is at most one rotation behind, and kubelets
bring a changed Secret to their pods within two minutes, each at its own time.
"""


def due(schedule: str, after: datetime, field: str, ordered: datetime | None = None) -> datetime:
    """When to rotate next: the first moment of a cron schedule later than the rotation at `after`, or the one it is
    `ordered` for, though not sooner than every pod has seen that one. Raises SpecError naming `field` if there is none.
    """
    try:
        scheduled = next(CronSim(ALIASES.get(schedule, schedule), after))
        return max(min(scheduled, ordered) if ordered and ordered > after else scheduled, after + APART)
    except (CronSimError, StopIteration) as error:
        raise SpecError(
            field, f"{schedule!r} is not a schedule: {error}; write cron fields such as '0 0 * * 0'"
        ) from error


@dataclass(frozen=True)
class KeyRing:
    """Keys by index as Keystone stores them: 0 is staged, the highest is primary, the rest can still read."""

    keys: Mapping[int, str]
    rotated: datetime

    def rotate(self, now: datetime, keep: int, draw: Callable[[], str]) -> KeyRing:
        """Promote the staged key to primary and stage a new one; `keep` keys remain, the staged one included.

        Every server reads the staged key before it signs with it, so no token is ever refused (Keystone's
        administrator guide, fernet key rotation).
        """
        promoted = {max(self.keys) + 1: self.keys[0], 0: draw()}
        kept = sorted(index for index in {**self.keys, **promoted} if index)[-(keep - 1) :]
        merged = {**self.keys, **promoted}
        return KeyRing({index: merged[index] for index in (0, *kept)}, now)


def new_ring(now: datetime, draw: Callable[[], str]) -> KeyRing:
    """A staged and a primary key."""
    return KeyRing({0: draw(), 1: draw()}, now)


def fernet_key(draw: Callable[[], str]) -> str:
    """A new fernet key: 32 random bytes, in URL-safe base64. What is drawn has 192 bits of randomness."""
    return base64.urlsafe_b64encode(hashlib.sha256(f"{draw()} {draw()}".encode()).digest()).decode()
