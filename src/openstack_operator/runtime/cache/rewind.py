"""Return to an earlier state of the API server's storage: the operator lists everything again before it goes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import NoReturn

import structlog

from .world import World

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_FIRST_PAUSE, _LONGEST_PAUSE = 30.0, 600.0
"""Seconds between two times. Two API servers with storages of their own would alternate without end."""
_CALM = 3600.0
"""Seconds without another time after which the next pause is the first one again."""


class Rewinds:
    """The times at which the storage of the API server was put back."""

    def __init__(self, world: World, on_settled: Callable[[], None], *, first_pause: float = _FIRST_PAUSE) -> None:
        """Call `on_settled` each time when the stores hold again what the cluster has."""
        self._world, self._on_settled, self._first_pause = world, on_settled, first_pause
        self._happened = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()

    async def wait_until_settled(self) -> None:
        """Return once the stores hold the cluster as it is: at once, unless the storage was just put back."""
        await self._settled.wait()

    async def run(self) -> NoReturn:
        """Follow the history of the API server until canceled."""
        loop, history = asyncio.get_running_loop(), self._world.client.history

        def note() -> None:
            # The thread that renews the lease may be the last to end.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._happened.set)

        history.on_rewind = note
        pause, last = self._first_pause, -_CALM
        while True:
            await self._happened.wait()
            self._happened.clear()
            await self._learn_again()
            now = loop.time()
            pause, last = self._first_pause if now - last > _CALM else min(2 * pause, _LONGEST_PAUSE), now
            await asyncio.sleep(pause)

    async def _learn_again(self) -> None:
        self._settled.clear()
        self._world.discovery.ask_again()
        for informer in self._world.informers:
            informer.start_over()
        await self._world.wait_until_synced()
        self._world.forget_all()
        self._on_settled()
        self._settled.set()
        _log.info("synced again", objects=sum(map(len, self._world.stores.values())))
