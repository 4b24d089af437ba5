"""Limits of an exchange with a server: time, bytes and CPU, however the server answers.

Timeouts of sockets count from one byte to the next, so a server that sends one now and then holds its client without
end. One that sends all the time costs the work of reading it, which keeps the threads of other resources waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import local

UNLIMITED = float("inf")


class ExhaustedError(OSError):
    """The server took more than an exchange with it may take."""


class Budget:
    """Time, bytes and CPU of an exchange that are left; those of an `outer` exchange count, too."""

    def __init__(
        self,
        *,
        seconds: float = UNLIMITED,
        received: float = UNLIMITED,
        cpu: float = UNLIMITED,
        outer: Budget | None = None,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Allow seconds, bytes that are received, and seconds of this thread's CPU."""
        self._seconds, self._received, self._cpu = seconds, received, cpu
        self._outer, self._clock, self._cpu_clock = outer, clock, cpu_clock
        self._end, self._cpu_end = clock() + seconds, cpu_clock() + cpu
        self._bytes = 0

    def wait(self, timeout: float | None = None) -> float | None:
        """Return how long one operation may wait: the timeout, or what is left if that is less; None for without end.
        Raises ExhaustedError if nothing is left.
        """
        if self._outer:
            timeout = self._outer.wait(timeout)
        if self._cpu_clock() > self._cpu_end:
            raise ExhaustedError(f"its answers take more than {self._cpu:g} s of CPU to read")
        remaining = self._end - self._clock()
        if remaining <= 0:
            raise ExhaustedError(f"its answers take longer than {self._seconds:g} s as a whole")
        if remaining == UNLIMITED:
            return timeout
        return remaining if timeout is None else min(timeout, remaining)

    def count(self, size: int) -> None:
        """Take so many bytes from it. Raises ExhaustedError if they are more than are left."""
        if self._outer:
            self._outer.count(size)
        self._bytes += size
        if self._bytes > self._received:
            raise ExhaustedError(f"its answers are longer than {_size(self._received)}")


class _Current(local):
    budget = Budget()


_current = _Current()


def current() -> Budget:
    """Return the budget of what this thread does."""
    return _current.budget


@contextmanager
def limited(*, seconds: float = UNLIMITED, received: float = UNLIMITED, cpu: float = UNLIMITED) -> Generator[None]:
    """Limit all that this thread's channels do meanwhile, to that in total. Limits within limits all count."""
    outer = _current.budget
    _current.budget = Budget(seconds=seconds, received=received, cpu=cpu, outer=outer)
    try:
        yield
    finally:
        _current.budget = outer


def _size(count: float) -> str:
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count:g} bytes"
