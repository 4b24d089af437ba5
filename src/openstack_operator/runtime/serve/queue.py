"""A work queue: each key at most once in it, never with two workers, later again after each failure; and no group of
keys has all workers for itself.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from .. import metrics

K = TypeVar("K")

FIRST_DELAY, LONGEST_DELAY = 1.0, 300.0
_ENDLESS = 1 << 30


class WorkQueue(Generic[K]):
    """Keys to be worked on. A key added while a worker has it is handed out again when that worker is done.

    Groups take turns. With a number of `workers`, a group has as many of them at most as are left for others (dynamic
    thresholds: Choudhury and Hahne, 1998): one alone has half of them, and one that comes while others keep theirs
    busy still finds some.
    """

    def __init__(
        self,
        name: str,
        clock: Callable[[], float] | None = None,
        *,
        workers: int = _ENDLESS,
        group: Callable[[K], Hashable] = lambda _: None,
    ) -> None:
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._workers = workers
        self._group = group
        self._ready: OrderedDict[Hashable, deque[K]] = OrderedDict()
        """By group, the one whose turn it is first; none is empty."""
        self._queued: dict[K, float] = {}
        """With the time at which each was added."""
        self._working: set[K] = set()
        self._busy: Counter[Hashable] = Counter()
        """Workers by group."""
        self._dirty: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._idle = deque[asyncio.Future[None]]()
        """Workers that wait, longest first. One is woken at a time: all of them would find work for one."""
        self._depth = metrics.DEPTH.labels(name)
        self._adds = metrics.ADDS.labels(name)
        self._waits = metrics.QUEUED_SECONDS.labels(name)
        self._retries = metrics.RETRIES.labels(name)

    def __len__(self) -> int:
        return len(self._queued)

    def add(self, key: K) -> None:
        """Add a key: it is worked on as soon as a worker is free."""
        if key in self._working:
            self._dirty.add(key)
        elif key not in self._queued:
            self._queued[key] = time.monotonic()
            self._ready.setdefault(self._group(key), deque()).append(key)
            self._adds.inc()
            self._depth.set(len(self))
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key after that time; of several such times the earliest counts."""
        due = self._clock() + seconds
        timer = self._timers.get(key)
        if timer is not None:
            if timer[0] <= due:
                return
            timer[1].cancel()
        self._timers[key] = due, asyncio.get_running_loop().call_later(seconds, self._fire, key)

    def retry(self, key: K, *, slowly: bool = False) -> float:
        """Add the key after a time that doubles at each failure, and return it. `slowly` starts at one minute."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        base = 60.0 if slowly else FIRST_DELAY
        # The exponent is bounded, since a float ends at 2**1024.
        delay = min(base * 2 ** min(failures - 1, 16), LONGEST_DELAY) * random.uniform(0.75, 1)  # noqa: S311
        self._retries.inc()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Note that the key did well: its next failure is its first."""
        self._failures.pop(key, None)

    def is_pending(self, key: K, within: float = 0) -> bool:
        """Return whether the key waits for a worker or has one, or its timer ends `within` so many seconds."""
        timer = self._timers.get(key)
        soon = timer is not None and timer[0] <= self._clock() + within
        return soon or key in self._queued or key in self._working

    def drop(self, key: K) -> None:
        """Drop a key whose resource is gone: no timer is left for it."""
        self.forget(key)
        if timer := self._timers.pop(key, None):
            timer[1].cancel()

    async def get(self) -> K:
        """Return the next key, which is this worker's until `task_done`."""
        while (ready := self._next()) is None:
            await self._woken()
        key = ready.popleft()
        group = self._group(key)
        if ready:
            self._ready.move_to_end(group)
        else:
            del self._ready[group]
        self._waits.observe(time.monotonic() - self._queued.pop(key))
        self._working.add(key)
        self._busy[group] += 1
        self._depth.set(len(self))
        self._wake()
        return key

    def task_done(self, key: K) -> None:
        """Give the key back."""
        self._working.discard(key)
        group = self._group(key)
        self._busy[group] -= 1
        if not self._busy[group]:
            del self._busy[group]
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)
        self._wake()

    async def _woken(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._idle:
                self._idle.remove(waiter)
            # It may have been woken before it was canceled.
            self._wake()
            raise

    def _wake(self) -> None:
        """Wake a worker if there is a key that it may have. It wakes the next one in turn."""
        if self._idle and self._next() is not None:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def _next(self) -> deque[K] | None:
        """Return the keys of the group whose turn it is, of those that may have a worker now."""
        free = self._workers - len(self._working)
        return next((ready for group, ready in self._ready.items() if self._busy[group] < free), None)

    def _fire(self, key: K) -> None:
        del self._timers[key]
        self.add(key)
