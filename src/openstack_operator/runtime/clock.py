"""The clocks that this process reads: the time of day, and time that only grows, whatever happens to the machine's
clock meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


def _wall() -> datetime:
    return datetime.now(UTC)


def _boottime() -> float:
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The clocks of a machine. A simulation has its own in place of them."""

    wall: Callable[[], datetime] = _wall
    boottime: Callable[[], float] = _boottime
    _began: datetime = field(init=False)
    _began_at: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_began", self.wall())
        object.__setattr__(self, "_began_at", self.boottime())

    def steady(self) -> datetime:
        """Return the time of day as of the creation of this object, and the time that passed since."""
        return self._began + timedelta(seconds=self.boottime() - self._began_at)


_MACHINE = Clock()
CLOCK: ContextVar[Clock] = ContextVar("clock", default=_MACHINE)
"""The clock that `now`, `boottime` and `steady` read."""


def now() -> datetime:
    """Return the time of day, which may be put back or forward."""
    return CLOCK.get().wall()


def boottime() -> float:
    """Return seconds that also count while the machine sleeps, unlike Python's monotonic clock on Linux."""
    return CLOCK.get().boottime()


def steady() -> datetime:
    """Return the time by the machine's clock as it was when this process began. A clock that is put back, or forward,
    does not change it. Compare it with times of this function alone, not with those in objects.
    """
    return CLOCK.get().steady()
