"""A user who calls a cloud all the time, while a test changes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Load:
    """Calls of a user, one after the other."""

    calls: int = 0
    failures: list[str] = field(default_factory=list[str])
    """A line for each call that raised an exception."""


@contextmanager
def called(call: Callable[[], object]) -> Generator[Load]:
    """Call again and again inside the block."""
    load, stop = Load(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            try:
                call()
            except Exception as error:
                load.failures.append(f"{time.strftime('%X')} {type(error).__name__}: {error}")
            load.calls += 1
            stop.wait(0.2)

    user = threading.Thread(target=work)
    user.start()
    try:
        yield load
    finally:
        stop.set()
        user.join()
