"""Metrics over HTTPS, for clients that the API server lets read them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from .process import any_of
from .scrapers import BUSY, PATH, UNAUTHORIZED, Refusal, Scrapers
from .serving_certificate import ServingCertificate

_PATIENCE = 10.0
"""Seconds a client may take to shake hands, ask, and again to read: any pod may connect."""
_CONNECTIONS, _OF_ONE = 64, 8
"""Connections at once, and those of one address; others wait, or are closed."""
_PACE = 0.02
"""Seconds between two connections: a handshake takes a millisecond of the one thread that does everything else."""
_SCRAPES = 4
"""Clients that may read metrics at once; each takes the memory of an answer."""
_LARGEST = 16 << 10
"""Bytes of a request; a token has some thousand."""
_LOOK = 10.0
"""Seconds between two looks at the certificate."""
_FULL = 1.0
"""Seconds to wait where the system has no room for one more connection."""


class MetricsServer:
    """A server of GET /metrics for those who may read them."""

    def __init__(
        self, text: Callable[[], bytes], scrapers: Scrapers, certificate: ServingCertificate, *, look: float = _LOOK
    ) -> None:
        """`text` is what they read; the certificate is looked at every `look` seconds."""
        self._text = text
        self._scrapers = scrapers
        self._certificate = certificate
        self._look = look
        self._scrapes = 0
        self._connections = set[asyncio.Task[None]]()
        self._peers = Counter[str]()

    async def serve(self, address: tuple[str, int]) -> None:
        """Serve until canceled. Raises OSError where the port is taken."""
        listener = socket.create_server(address, backlog=_CONNECTIONS)
        listener.setblocking(False)
        try:
            await any_of(self._follow_certificate(), self._accept(listener))
        finally:
            listener.close()
            # asyncio never closes a transport whose task is canceled in the two turns of the loop in which it begins.
            for _ in range(2):
                await asyncio.sleep(0)
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _follow_certificate(self) -> None:
        while True:
            self._certificate.refresh()
            await asyncio.sleep(self._look)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if len(self._connections) >= _CONNECTIONS:
                await asyncio.wait(self._connections, return_when=asyncio.FIRST_COMPLETED)
            try:
                connection, peer = await loop.sock_accept(listener)
            except OSError:
                # The client closed it again, or there are too many files open.
                await asyncio.sleep(_FULL)
                continue
            context, host = self._certificate.context, str(peer[0])
            if context is None or self._peers[host] >= _OF_ONE:
                connection.close()
            else:
                self._begin(connection, host, context)
            await asyncio.sleep(_PACE)

    def _begin(self, connection: socket.socket, host: str, context: ssl.SSLContext) -> None:
        self._peers[host] += 1
        task = asyncio.ensure_future(self._serve_connection(connection, context))

        def on_end(_: object) -> None:
            self._connections.discard(task)
            # Addresses of clients that came once must not pile up.
            self._peers[host] -= 1
            self._peers += Counter()
            if task.cancelled():
                # It may have ended before a transport was there to close it.
                connection.close()

        self._connections.add(task)
        task.add_done_callback(on_end)

    async def _serve_connection(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(_LARGEST)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=context, ssl_handshake_timeout=_PATIENCE
            )
        except OSError:
            # The client speaks no TLS, or too slowly.
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await self._answer(reader, writer)
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
            # The client closed the connection, does not speak HTTP, or does not read.
            pass
        finally:
            transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_PATIENCE):
            request = await reader.readuntil(b"\r\n\r\n")
        refusal = await self._refusal(request)
        if refusal is None and self._scrapes >= _SCRAPES:
            refusal = BUSY
        if refusal:
            await _send(writer, refusal.status, f"{refusal.reason}\n".encode())
            return
        self._scrapes += 1
        try:
            await _send(writer, "200 OK", self._text())
        finally:
            self._scrapes -= 1

    async def _refusal(self, request: bytes) -> Refusal | None:
        """Return why a request gets no metrics. Raises ValueError for what is no request of HTTP."""
        request_line, *headers = request.decode("latin-1").split("\r\n")
        method, target, _ = request_line.split(" ", 2)
        if target.partition("?")[0] != PATH:
            return Refusal("404 Not Found", f"ask {PATH}")
        if method != "GET":
            return Refusal("405 Method Not Allowed", "ask with GET")
        fields = (line.partition(":") for line in headers)
        credentials = [value.strip() for name, _, value in fields if name.lower() == "authorization"]
        # With two of them, a proxy and this server could each look at another one.
        scheme, _, token = credentials[0].partition(" ") if len(credentials) == 1 else ("", "", "")
        return await self._scrapers.refusal(token.strip()) if scheme.lower() == "bearer" else UNAUTHORIZED


async def _send(writer: asyncio.StreamWriter, status: str, content: bytes) -> None:
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain; version=0.0.4; charset=utf-8"]
    lines += ["WWW-Authenticate: Bearer"] if status == UNAUTHORIZED.status else []
    lines += [f"Content-Length: {len(content)}", "Connection: close", "", ""]
    async with asyncio.timeout(_PATIENCE):
        writer.write("\r\n".join(lines).encode() + content)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
