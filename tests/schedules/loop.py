"""An event loop whose time is virtual, and whose order of what happens at the same time comes from a seed."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any, cast

from openstack_operator.runtime.clock import CLOCK, Clock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_MOST_EVENTS = 300_000
"""Callbacks of one schedule: many times what the longest one takes."""


class EndlessScheduleError(AssertionError):
    """A schedule does not come to an end."""


@dataclass
class Process:
    """What belongs together, and stops together."""

    name: str
    frozen: bool = False
    held: list[asyncio.Handle] = field(default_factory=list[asyncio.Handle])
    """Callbacks that were due while it was frozen."""


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The simulated process that a callback belongs to; None for the world around the operators."""


class _Future(asyncio.Future[Any]):
    """A future that has the same place in a set in each run: usually its address decides, which differs."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._number = number

    def __hash__(self) -> int:
        return self._number


class _Task(asyncio.Task[Any]):
    """A task that has the same place in a set in each run."""

    def __init__(self, number: int, coroutine: Any, *, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        # It enters the set of all tasks while it is made.
        self._number = number
        super().__init__(coroutine, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class VirtualLoop(asyncio.BaseEventLoop):
    """Time goes on to the next timer once nothing is ready. No threads, no sockets, no signals."""

    def __init__(self, random: Random, *, shuffles: bool) -> None:
        super().__init__()
        self._random, self._shuffles = random, shuffles
        self._virtual_time = 0.0
        self.events = 0
        self.errors: list[str] = []
        """What nobody caught."""
        self._numbers = count()
        self.set_exception_handler(self._note_error)
        self.set_task_factory(self._make_task)
        self.clock = Clock(wall=self.wall_time, boottime=self.time)
        # Of BaseEventLoop, which asyncio's own loops use the same way.
        self._handles = cast("Any", self)._ready
        self._timers: list[asyncio.TimerHandle] = cast("Any", self)._scheduled

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self._numbers), self)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        return _Task(next(self._numbers), coroutine, loop=loop, **options)

    def time(self) -> float:
        return self._virtual_time

    def wall_time(self) -> datetime:
        return EPOCH + timedelta(seconds=self._virtual_time)

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on with everything that was due meanwhile."""
        process.frozen = False
        self._handles.extend(process.held)
        process.held.clear()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Run the function here, after a short time."""
        future = self.create_future()

        def run() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_later(self._random.uniform(0.001, 0.2), run)
        return future

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        """No signals are sent."""

    def remove_signal_handler(self, sig: int) -> bool:
        return False

    def _write_to_self(self) -> None:
        """Nothing waits for it: there are no threads."""

    def _note_error(self, _: Any, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _run_once(self) -> None:
        if not self._handles:
            while self._timers and self._timers[0].cancelled():
                self._drop_timer()
            if not self._timers:
                raise EndlessScheduleError("everything waits for something that never happens")
            self._virtual_time = max(self._virtual_time, self._timers[0].when())
        while self._timers and (self._timers[0].when() <= self._virtual_time or self._timers[0].cancelled()):
            timer = self._drop_timer()
            if not timer.cancelled():
                self._handles.append(timer)
        batch: list[Any] = list(self._handles)
        self._handles.clear()
        if self._shuffles and len(batch) > 1:
            self._random.shuffle(batch)
        for handle in batch:
            if handle.cancelled():
                continue
            process = handle._context.get(PROCESS)
            if process is not None and process.frozen:
                process.held.append(handle)
            else:
                handle._run()
        self.events += len(batch)
        if self.events > _MOST_EVENTS:
            raise EndlessScheduleError(f"{self.events} events, and no end")

    def _drop_timer(self) -> asyncio.TimerHandle:
        timer = heapq.heappop(self._timers)
        cast("Any", timer)._scheduled = False
        return timer


def context_of(process: Process, clock: Clock) -> Any:
    """Return the context in which everything of a process runs."""
    context = copy_context()
    context.run(PROCESS.set, process)
    context.run(CLOCK.set, clock)
    return context
