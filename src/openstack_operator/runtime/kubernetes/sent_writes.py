"""Writes that were sent, and changes of other servers that began: they go on after their callers were canceled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class SentWrites:
    """The writes of one process that are not answered yet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def finish(self, sending: Coroutine[Any, Any, T]) -> T:
        """Return the answer to a write. A caller that is canceled does not wait for it, but the write goes on."""
        task = asyncio.ensure_future(sending)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def end(self) -> None:
        """Return once all of them are answered, also those whose callers were canceled."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Its caller may be gone: then the error has no other reader.
            task.exception()
