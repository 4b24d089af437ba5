"""The server for clients that may be any pod: it serves few at once, so that none keeps others away or fills memory."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_FULL = 1.0
"""Seconds to wait where the system has no room for one more connection."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds of a server."""

    connections: int = 64
    """Connections at once. One more ends the oldest of the address that has most of them."""
    of_one: int = 8
    """Those of one address."""
    request: int = 16 << 10
    """Bytes of a request up to its empty line; a token has some thousand."""
    handshake: float = 10.0
    """Seconds to begin TLS."""
    pace: float = 0.02
    """Seconds between two connections: a handshake takes a millisecond of the one thread that does everything else."""


class _Connection:
    def __init__(self, plain: socket.socket, host: str) -> None:
        self.plain, self.host = plain, host
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        """True from when there is a transport."""

    def end(self) -> None:
        if self.task and self.has_begun:
            self.task.cancel()
            return
        # A task that is canceled while its transport is made leaves it open.
        with contextlib.suppress(OSError):
            self.plain.shutdown(socket.SHUT_RDWR)


class Listener:
    """A server that has `answer` speak to each client. It may raise what a client causes that is slow, disconnects, or
    says something else than expected.
    """

    def __init__(
        self, answer: Answer, bounds: Bounds, context: Callable[[], ssl.SSLContext | None] | None = None
    ) -> None:
        """With `context`, connections begin with TLS as it says then; while it says None, they are closed."""
        self._answer = answer
        self._bounds = bounds
        self._context = context
        self._connections: list[_Connection] = []
        """The oldest first."""
        self._tasks = set[asyncio.Task[None]]()
        """Those of connections that were ended, too."""

    def __len__(self) -> int:
        return len(self._connections)

    async def serve(self, address: tuple[str, int]) -> None:
        """Serve until canceled. Raises OSError where the port is taken."""
        listener = _listening(address, self._bounds.connections)
        listener.setblocking(False)
        try:
            await self._accept(listener)
        finally:
            listener.close()
            # asyncio never closes a transport whose task is canceled in the two turns of the loop in which it begins.
            for _ in range(2):
                await asyncio.sleep(0)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        begun = -self._bounds.pace
        while True:
            try:
                connection, peer = await loop.sock_accept(listener)
            except OSError:
                # The client closed it again, or there are too many files open.
                await asyncio.sleep(_FULL)
                continue
            # At rest a connection is the only one of its second, and no timer has to wake the loop for it.
            if (early := begun + self._bounds.pace - loop.time()) > 0:
                try:
                    await asyncio.sleep(early)
                except asyncio.CancelledError:
                    connection.close()
                    raise
            begun = loop.time()
            context = self._context() if self._context else None
            if self._context and context is None:
                connection.close()
            else:
                self._make_room(str(peer[0]))
                self._begin(connection, str(peer[0]), context)

    def _make_room(self, host: str) -> None:
        """End a connection where there are too many. A client with many ends its own ones, and not those of others."""
        counts = Counter(each.host for each in self._connections)
        counts[host] += 1
        if counts[host] > self._bounds.of_one or len(self._connections) >= self._bounds.connections:
            most = host if counts[host] > self._bounds.of_one else max(counts, key=lambda each: counts[each])
            oldest = next(each for each in self._connections if each.host == most)
            self._connections.remove(oldest)
            oldest.end()

    def _begin(self, plain: socket.socket, host: str, context: ssl.SSLContext | None) -> None:
        connection = _Connection(plain, host)

        def on_end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if connection in self._connections:
                self._connections.remove(connection)
            if task.cancelled():
                # It may have ended before a transport was there to close it.
                plain.close()

        connection.task = asyncio.ensure_future(self._serve_connection(connection, context))
        self._connections.append(connection)
        self._tasks.add(connection.task)
        connection.task.add_done_callback(on_end)

    async def _serve_connection(self, connection: _Connection, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(self._bounds.request)
        protocol = asyncio.StreamReaderProtocol(reader)
        handshake = self._bounds.handshake if context else None
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection.plain, ssl=context, ssl_handshake_timeout=handshake
            )
        except OSError:
            # The client speaks no TLS, or too slowly.
            return
        connection.has_begun = True
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await self._answer(reader, writer)
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            # The client closed the connection, does not speak HTTP, or does not read.
            pass
        finally:
            transport.abort()


def _listening(address: tuple[str, int], backlog: int) -> socket.socket:
    """Return a socket that listens; an empty host is all addresses of each family that the kernel has."""
    if not address[0] and socket.has_dualstack_ipv6():
        return socket.create_server(address, family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    return socket.create_server(address, backlog=backlog)
