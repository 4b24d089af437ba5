"""Times in objects: a user who may write an object, or its status, may have written any text there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_YEARS = range(2000, 3000)
"""Years of which a clock may be: with those at the ends of the calendar, a sum overflows."""
_SKEW = timedelta(hours=1)


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Return True if the time of something that has happened is still to come: the clock was put back since. Clocks of
    two replicas may be an hour apart.
    """
    return moment > now + _SKEW


def not_ahead(moment: datetime, now: datetime) -> datetime:
    """Return the time of something that has happened; now where it is still to come. A plan that stores this time goes
    on from it; one that took the other would wait until then.
    """
    return now if is_ahead(moment, now) else moment


def time_stamp(moment: datetime) -> str:
    """Return a time as RFC 3339 has it, in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def past_stamp(text: str, now: datetime) -> str:
    """Return a stored time as it is; now for one that is still to come, since the clock was put back."""
    moment = valid_time(text)
    return time_stamp(now) if moment and is_ahead(moment, now) else text


def valid_time(text: object) -> datetime | None:
    """Return an RFC 3339 time in UTC; None for what is none, or what no clock shows."""
    try:
        parsed = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed and parsed.tzinfo and parsed.year in _YEARS else None
