"""Metrics over HTTPS, for clients that the API server lets read them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..process import any_of
from .listener import Bounds, Listener
from .scrapers import BUSY, PATH, UNAUTHORIZED, Refusal, Scrapers
from .serving_certificate import ServingCertificate

_PATIENCE = 10.0
"""Seconds a client may take to shake hands, ask, and again to read: any pod may connect."""
_CONNECTIONS = 64
_SCRAPES = 4
"""Clients that may read metrics at once; each takes the memory of an answer."""
_LOOK = 10.0
"""Seconds between two looks at the certificate."""


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
        bounds = Bounds(connections=_CONNECTIONS, handshake=_PATIENCE)
        self._listener = Listener(self._answer, bounds, lambda: certificate.context)

    async def serve(self, address: tuple[str, int]) -> None:
        """Serve until canceled. Raises OSError where the port is taken."""
        await any_of(self._follow_certificate(), self._listener.serve(address))

    async def _follow_certificate(self) -> None:
        while True:
            self._certificate.refresh()
            await asyncio.sleep(self._look)

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
