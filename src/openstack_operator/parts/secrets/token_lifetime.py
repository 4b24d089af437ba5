"""Times of Keystone that belong together: tokens end before the keys by which they are read."""

from __future__ import annotations

from datetime import timedelta
from math import ceil
from typing import Any

from ...plan import Context, IgnoredFields, Plan
from ..schedules import duration_text, shortest_span

_EXPIRATION, _WINDOW = 3600, 172800
"""Keystone's defaults of [token] expiration and allow_expired_window, in seconds."""
_MOST_KEYS = 32


def review_keys(ctx: Context[Any], plan: Plan, *, least: timedelta) -> IgnoredFields:
    """Return the advice for keys that go before the tokens that they made end.

    A token may be made right before its key stops to be the primary one. That key stays for maxActiveKeys - 2 further
    rotations. A service may use a token for allow_expired_window after its end (Keystone's administrator guide, fernet
    tokens; kolla has the same rule). `least` is the shortest time between rotations.
    """
    keys = ctx.spec.fernet.max_active_keys
    schedule = ctx.spec.fernet.rotation_schedule
    token: dict[str, Any] = {}
    for section, options in ctx.spec.config.items():
        if section.lower() == "token":
            token |= {name.replace("-", "_"): value for name, value in options.items()}
    expiration, window = _seconds(token, "expiration", _EXPIRATION), _seconds(token, "allow_expired_window", _WINDOW)
    if expiration is None or window is None:
        return {}
    life = expiration + window
    readable = shortest_span(schedule, ctx.now, keys - 2, least)
    interval = shortest_span(schedule, ctx.now, 1, least)
    if readable >= life:
        return {}
    needed = ceil(life / interval) + 2
    slower = duration_text(life / (keys - 2))
    advice = f"set it to {needed}" if needed <= _MOST_KEYS else f"{needed} exceeds the limit of {_MOST_KEYS}"
    return {
        "spec.fernet.maxActiveKeys": (
            f"{keys} keys, rotated each {duration_text(interval)} (rotationSchedule), read a token"
            f" for {duration_text(readable)}, and tokens last {duration_text(life)} (token.expiration"
            f" {duration_text(expiration)} and allow_expired_window {duration_text(window)}): users and long"
            f" operations get 401; {advice}, rotate each {slower} or less often, or let tokens end sooner"
        )
    }


def _seconds(options: dict[str, Any], name: str, default: int) -> timedelta | None:
    """Return the time that an option says; None if it says none."""
    try:
        return timedelta(seconds=int(options.get(name, default)))
    except (TypeError, ValueError, OverflowError):
        return None
