"""Waits for what a test expects: no test measures time, and a limit in seconds only tells one that hangs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

TIMEOUT = 300.0
"""Seconds after which a test is taken for hung: a busy machine may need a hundred times what a test takes alone."""


def until(what: str, look: Callable[[], T | None]) -> T:
    """The first true answer of `look`."""
    began = time.monotonic()
    while not (answer := look()):
        time.sleep(_pause(what, time.monotonic() - began))
    return answer


async def eventually(what: str, look: Callable[[], T | None]) -> T:
    """The first true answer of `look`; whatever else the event loop has to do goes on meanwhile."""
    began = time.monotonic()
    while not (answer := look()):
        pause = _pause(what, time.monotonic() - began)
        await asyncio.sleep(pause)
    return answer


def _pause(what: str, waited: float) -> float:
    """Seconds until the next look. Looks take the CPU that what is waited for needs, so they become fewer."""
    assert waited < TIMEOUT, f"{what}: not within {TIMEOUT:.0f} s"
    return min(0.02 + waited / 10, 0.2)


@contextmanager
def cpu_time_limit(seconds: float = 30.0) -> Generator[None]:
    """What is done inside takes no more of the processor, however busy the machine is; it is taken for hung then."""

    def over(*_: object) -> None:
        raise AssertionError(f"not within {seconds:.0f} s of processor time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
