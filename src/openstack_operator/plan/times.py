"""Times in objects: a user who may write an object, or its status, may have written any text there."""

from __future__ import annotations

from datetime import UTC, datetime

_YEARS = range(2000, 3000)
"""Years of which a clock may be: with those at the ends of the calendar, a sum overflows."""


def valid_time(text: object) -> datetime | None:
    """Return an RFC 3339 time in UTC; None for what is none, or what no clock shows."""
    try:
        parsed = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return parsed.astimezone(UTC) if parsed and parsed.tzinfo and parsed.year in _YEARS else None
