"""Waits for what a test expects: no test measures time, and a limit in seconds only tells one that hangs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 300.0
"""Seconds after which a test is taken for hung: a busy machine may need a hundred times what a test takes alone."""
_PAUSE = 0.02


def until(what: str, look: Callable[[], T | None]) -> T:
    """The first true answer of `look`."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := look()):
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:.0f} s"
        time.sleep(_PAUSE)
    return answer


async def eventually(what: str, look: Callable[[], T | None]) -> T:
    """The first true answer of `look`; whatever else the event loop has to do goes on meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := look()):
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE:.0f} s"
        await asyncio.sleep(_PAUSE)
    return answer
