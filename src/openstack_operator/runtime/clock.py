"""Time that only grows: for how long something has been so, whatever happens to the clock of the machine meanwhile."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


def boottime() -> float:
    """Return seconds that also count while the machine sleeps, unlike Python's monotonic clock on Linux."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


_BEGAN, _BEGAN_AT = datetime.now(UTC), boottime()


def steady() -> datetime:
    """Return the time by the machine's clock as it was when this process began. A clock that is put back, or forward,
    does not change it. Compare it with times of this function alone, not with those in objects.
    """
    return _BEGAN + timedelta(seconds=boottime() - _BEGAN_AT)
