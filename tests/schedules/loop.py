"""An event loop whose time is virtual, and whose order of what happens at the same time comes from a seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from threading import Lock, Thread
from typing import Any, cast

from openstack_operator.runtime.clock import CLOCK, Clock

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_MOST_EVENTS = 300_000
"""Callbacks of one schedule: many times what the longest one takes."""

_PRUNED = 200
"""Tasks that are kept before those that have ended are left out."""


class EndlessScheduleError(AssertionError):
    """A schedule does not come to an end."""


@dataclass
class Process:
    """What belongs together, and stops together."""

    name: str
    frozen: bool = False
    is_dead: bool = False
    """True once it has crashed: its threads do nothing more."""
    held: list[_Handle] = field(default_factory=list["_Handle"])
    """Callbacks that were due while it was frozen."""


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The simulated process that a callback belongs to; None for the world around the operators."""


class _Future(asyncio.Future[Any]):
    """A future that has the same place in a set in each run: usually its address decides, which differs."""

    _number = -1

    def __hash__(self) -> int:
        if self._number < 0:
            self._number = next(cast("VirtualLoop", self.get_loop()).numbers)
        return self._number


class _Task(asyncio.Task[Any]):
    """A task that has the same place in a set in each run."""

    _number = -1

    def __hash__(self) -> int:
        if self._number < 0:
            self._number = next(cast("VirtualLoop", self.get_loop()).numbers)
        return self._number


class _Handle:
    """A callback, now or at a time: asyncio's own with less work."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "time")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context, time: float) -> None:
        self.callback, self.args, self.context, self.time = callback, args, context, time
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.args = ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.time


class VirtualLoop(asyncio.BaseEventLoop):
    """Time goes on to the next timer once nothing is ready. No sockets, no signals, and one thread at a time."""

    def __init__(self, random: Random, *, shuffles: bool) -> None:
        super().__init__()
        self._random, self._shuffles = random, shuffles
        self._virtual_time = 0.0
        self.events = 0
        self.errors: list[str] = []
        """What nobody caught."""
        self.set_exception_handler(self._note_error)
        self.set_task_factory(self._make_task)
        self.clock = Clock(wall=self.wall_time, boottime=self.time)
        self._handles: list[_Handle] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        self.numbers = count()
        """Numbers for what has to have the same order in each run."""
        self._frozen = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._tasks_pruned = _PRUNED
        self.threads: set[SimulatedThread] = set()
        """Threads that stand still."""

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        handle = _Handle(callback, args, copy_context() if context is None else context, 0)
        self._handles.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        timer = _Handle(callback, args, copy_context() if context is None else context, when)
        heappush(self._timers, (when, next(self.numbers), timer))
        return timer

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        return self.call_at(self._virtual_time + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def _make_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task = _Task(coroutine, loop=loop, **options)
        self._tasks.append(task)
        if len(self._tasks) > 2 * self._tasks_pruned:
            self._tasks = self.pending_tasks()
            self._tasks_pruned = max(_PRUNED, len(self._tasks))
        return task

    def pending_tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have not ended, in the order of their creation."""
        return [task for task in self._tasks if not task.done()]

    def time(self) -> float:
        return self._virtual_time

    def wall_time(self) -> datetime:
        return EPOCH + timedelta(seconds=self._virtual_time)

    def freeze(self, process: Process) -> None:
        """Let nothing of a process go on."""
        process.frozen = True
        self._frozen += 1

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on with everything that was due meanwhile."""
        process.frozen = False
        self._frozen -= 1
        self._handles.extend(process.held)
        process.held.clear()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Run the function in a thread, which begins after a short time."""
        future = self.create_future()
        thread = SimulatedThread(self, self._random, future, partial(func, *args))
        self.call_later(self._random.uniform(0.001, 0.2), thread.begin)
        return future

    def end_threads(self) -> None:
        """End all threads that stand still, as the death of their processes does."""
        while self.threads:
            thread = min(self.threads, key=lambda each: each.number)
            if thread.process:
                thread.process.is_dead = True
            thread.go_on()

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:
        """No signals are sent."""

    def remove_signal_handler(self, sig: int) -> bool:
        return False

    def _write_to_self(self) -> None:
        """Nothing waits for it."""

    def _note_error(self, _: Any, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _run_once(self) -> None:
        timers, handles = self._timers, self._handles
        if not handles:
            while timers and timers[0][2].is_cancelled:
                heappop(timers)
            if not timers:
                raise EndlessScheduleError("everything waits for something that never happens")
            self._virtual_time = max(self._virtual_time, timers[0][0])
        now = self._virtual_time
        while timers and timers[0][0] <= now:
            timer = heappop(timers)[2]
            if not timer.is_cancelled:
                handles.append(timer)
        self._handles = []
        if self._shuffles and len(handles) > 1:
            self._random.shuffle(handles)
        for handle in handles:
            if handle.is_cancelled:
                continue
            if self._frozen and (process := handle.context.get(PROCESS)) is not None and process.frozen:
                process.held.append(handle)
                continue
            try:
                handle.context.run(handle.callback, *handle.args)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self._note_error(self, {"message": f"in {handle.callback}", "exception": error})
        self.events += len(handles)
        if self.events > _MOST_EVENTS:
            raise EndlessScheduleError(f"{self.events} events, and no end")


class _KilledError(BaseException):
    """The process of a thread has ended."""


_THREAD: ContextVar[SimulatedThread | None] = ContextVar("thread", default=None)


class SimulatedThread:
    """A thread that runs for no time, stands still, and runs again. Nobody can cancel it once it runs."""

    def __init__(
        self, loop: VirtualLoop, random: Random, future: asyncio.Future[Any], work: Callable[[], object]
    ) -> None:
        self._loop, self._random, self._future, self._work = loop, random, future, work
        self.number = next(loop.numbers)
        self.process = PROCESS.get()
        self._context = copy_context()
        self._may_run, self._has_stopped = Lock(), Lock()
        self._may_run.acquire()
        self._has_stopped.acquire()

    def begin(self) -> None:
        """Run until it stands still for the first time, unless it was canceled before."""
        if not self._future.cancelled():
            Thread(target=self._context.copy().run, args=(self._run,), daemon=True).start()
            self._has_stopped.acquire()

    def go_on(self) -> None:
        """Run until it stands still again."""
        self._loop.threads.discard(self)
        self._may_run.release()
        self._has_stopped.acquire()

    def stand_still(self, seconds: float) -> None:
        """Let so much time pass. Called in the thread."""
        self._loop.threads.add(self)
        self._loop.call_later(seconds, self._go_on_later, context=self._context)
        self._has_stopped.release()
        self._may_run.acquire()
        if self.process and self.process.is_dead:
            raise _KilledError

    def _go_on_later(self) -> None:
        if self in self._loop.threads:
            self.go_on()

    def _run(self) -> None:
        _THREAD.set(self)
        try:
            result, error = self._work(), None
        except Exception as exception:
            result, error = None, exception
        except _KilledError:
            self._has_stopped.release()
            return
        if not self._future.done():
            if error is None:
                self._future.set_result(result)
            else:
                self._future.set_exception(error)
        self._has_stopped.release()


def stand_still(seconds: float) -> None:
    """Let time pass for the simulated thread that calls this; outside of one nothing."""
    if thread := _THREAD.get():
        thread.stand_still(seconds)


def context_of(process: Process, clock: Clock) -> Context:
    """Return the context in which everything of a process runs."""
    context = copy_context()
    context.run(PROCESS.set, process)
    context.run(CLOCK.set, clock)
    return context
