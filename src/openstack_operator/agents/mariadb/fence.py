"""The fence of a member that does not take the clients: it ends the connections that they have with it.

A Service leads new connections to the primary, and leaves those that exist where they are. What a client reads there
may lack what was acknowledged at the primary.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from . import sql
from .role import BACKUP, FILE, PRIMARY, READER, TERM, Role, other_primary

PERIOD = 5.0
"""Seconds after which the primary asks again whether another member has become it: its kubelet may not hear of that."""
GRACE = 25.0
"""Seconds for the end of a transaction that began while this member took the clients."""


class Fence:
    """The fence of the member of this pod."""

    def __init__(
        self,
        directory: Path,
        client: sql.Sql,
        ask: Callable[[], Awaitable[Mapping[str, Role]]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory, self._sql, self._ask, self._clock = directory, client, ask, clock
        self._since: float | None = None
        """Time from which on clients have nothing to do here; None while they have."""
        self._asked_at = float("-inf")

    def role(self, *, serves: bool) -> Role:
        """Return the role of this member."""
        path = self._directory / FILE
        try:
            # The age of the file, not of this process: a member that starts again has not become the primary anew.
            age = time.time() - path.stat().st_mtime
            return Role(path.read_text(encoding="utf-8").strip(), age, serves, self._term())
        except OSError:
            return Role()

    def _term(self) -> int:
        try:
            return int((self._directory / TERM).read_text(encoding="utf-8") or 0)
        except (OSError, ValueError):
            return 0

    async def end_refused(self) -> None:
        """End the connections of all clients at a member that refuses their queries: outside the primary component, or
        not ready. They are gone when it serves again, at which time it may not know yet that another member took the
        clients over.
        """
        self._since = self._since or self._clock()
        await self._end(await self._clients(), "it takes no queries")

    async def end_misplaced(self, *, asks: bool = False) -> None:
        """End the connections of clients if another member takes them: those between two transactions and those with a
        new transaction at once, and older transactions after GRACE. The primary asks the others for their roles if it
        `asks`, if they took the clients last time, and each PERIOD.
        """
        me, now = self.role(serves=True), self._clock()
        clients = await self._clients() if me.name == BACKUP else {}
        is_due = asks or self._since is not None or now >= self._asked_at + PERIOD
        if not (clients if me.name == BACKUP else is_due and me.name == PRIMARY):
            return
        self._asked_at = now
        primary = other_primary(me, await self._ask())
        if not primary:
            self._since = None
            return
        self._since = self._since or now
        elapsed = now - self._since
        clients = clients or await self._clients()
        ending = [number for number, age in clients.items() if age < elapsed or elapsed > GRACE]
        await self._end(ending, f"{primary} takes them")

    async def _clients(self) -> dict[str, float]:
        """Return the connections through the network, and for how many seconds each has been busy with a transaction or
        a statement; -1 if with neither. Backups are no clients. Others come through the socket: the exporter's, and
        those of state transfers.
        """
        return {number: float(age) for number, age in await self._sql.rows(sql.remote_clients(READER)) or ()}

    async def _end(self, numbers: Iterable[str], reason: str) -> None:
        if numbers := list(numbers):
            print(f"member: ends {len(numbers)} connections of clients: {reason}", file=sys.stderr, flush=True)
            await self._sql.kill(numbers)
