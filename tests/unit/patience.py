"""Waits for what a test expects: no test measures time, and a limit in seconds only tells one that hangs."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
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


@contextmanager
def processor_time(seconds: float = 30.0) -> Generator[None]:
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
