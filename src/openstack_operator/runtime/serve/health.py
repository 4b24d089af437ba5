"""Answers to the kubelet: whether the operator is alive, and whether it is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from .. import metrics
from ..process import Beat
from .listener import Bounds, Listener

_BEAT = 1.0
_LATE = 10.0
"""Seconds the event loop may be busy with one thing before the process counts as stuck."""
_PATIENCE = 10.0
"""Seconds a client may take to ask and to read: any pod may connect."""
_BOUNDS = Bounds(connections=64, of_one=8, request=4 << 10, pace=0.002)
"""A probe is small and over at once. Few connections at a time keep any pod from filling the operator's memory; the
kubelet's own is the newest, and is not ended for others.
"""
_SCRAPES = 4
"""Clients that may read metrics at once; each takes the memory of an answer. Probes are always answered."""


class Health:
    """A server of GET /healthz and /readyz."""

    def __init__(self, ready: Callable[[], bool], text: Callable[[], bytes] | None = None) -> None:
        """With the `text` of metrics, it answers GET /metrics, too, to every client."""
        self._ready = ready
        self._text = text
        self._beaten = time.monotonic()
        self._scrapes = 0

    async def serve(self, address: tuple[str, int]) -> None:
        """Serve until canceled. Raises OSError where the port is taken."""
        beat = Beat(_BEAT, self._note_beat)
        try:
            await Listener(self._answer, _BOUNDS).serve(address)
        finally:
            beat.end()

    def _note_beat(self, late: float) -> None:
        metrics.LAG.set(late)
        self._beaten = time.monotonic()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        scrapes = False
        try:
            async with asyncio.timeout(_PATIENCE):
                request = await reader.readuntil(b"\r\n\r\n")
                path = _path(request)
                scrapes = path == b"/metrics" and self._text is not None
                self._scrapes += scrapes
                status, content = self._content(path)
                head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                writer.write(f"{head}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        finally:
            self._scrapes -= scrapes

    def _content(self, path: bytes) -> tuple[str, bytes]:
        if path == b"/metrics" and self._text:
            busy = self._scrapes > _SCRAPES
            return ("503 Service Unavailable", b"too many requests at once\n") if busy else ("200 OK", self._text())
        if path == b"/readyz":
            return ("200 OK", b"ok\n") if self._ready() else ("503 Service Unavailable", b"not synced yet\n")
        if path == b"/healthz":
            late = time.monotonic() - self._beaten > _LATE
            return ("503 Service Unavailable", b"the event loop was stuck\n") if late else ("200 OK", b"ok\n")
        return "404 Not Found", b"ask /healthz or /readyz; metrics are at --metrics-port\n"


def _path(request: bytes) -> bytes:
    """Return the path of a request. Raises ValueError for what is none."""
    _, path, _ = request.partition(b"\r\n")[0].split(b" ", 2)
    return path
