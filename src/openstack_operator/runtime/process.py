"""The life of a process: its parts run together, and end together in good order."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar, cast

import structlog

from ..plan import SpecError, Transient

T = TypeVar("T")

_log: structlog.stdlib.BoundLogger = structlog.get_logger()


async def until_stopped(work: Coroutine[Any, Any, Any]) -> None:
    """Run until SIGTERM or SIGINT, or until canceled; what is being written then is finished or was not begun.

    Raises what the work raises.
    """
    loop, whole = asyncio.get_running_loop(), asyncio.ensure_future(work)
    signals = (signal.SIGTERM, signal.SIGINT)
    stopped = asyncio.Event()

    def stop() -> None:
        stopped.set()
        whole.cancel()

    # Only the main thread of a process has signals.
    with contextlib.suppress(RuntimeError, ValueError):
        for number in signals:
            loop.add_signal_handler(number, stop)
    try:
        await whole
    except asyncio.CancelledError:
        whole.cancel()
        await asyncio.gather(whole, return_exceptions=True)
        if not stopped.is_set():
            raise
        _log.info("stopped")
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


class Beat:
    """A call every `period` seconds of the running loop, at multiples of it: beats of one period share one wake-up, and
    need no task.
    """

    def __init__(self, period: float, call: Callable[[float], None]) -> None:
        """Call with the seconds by which the loop is late, from the next multiple on."""
        self._loop = asyncio.get_running_loop()
        self._period, self._call = period, call
        self._number = 0
        self._begin()

    def end(self) -> None:
        """Call no more."""
        self._timer.cancel()

    def _begin(self) -> None:
        # A timer may end a little early, and is not to end twice.
        self._number = 1 + max(self._number, math.floor(self._loop.time() / self._period))
        self._timer = self._loop.call_at(self._number * self._period, self._beat)

    def _beat(self) -> None:
        late = self._loop.time() - self._number * self._period
        self._begin()
        self._call(max(0.0, late))


async def any_of(*parts: Coroutine[Any, Any, Any]) -> None:
    """Run all until the first one ends, however it does, and cancel the others. Raises what the first one raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in finished:
        task.result()


async def gather_errors(tasks: Iterable[Awaitable[T]]) -> list[T]:
    """Run all to their end, then return their results or raise the gravest of their errors."""
    results = await asyncio.gather(*tasks, return_exceptions=True)
    errors = [result for result in results if isinstance(result, BaseException)]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, Transient) + isinstance(error, (Transient, SpecError)))
    return cast("list[T]", results)
