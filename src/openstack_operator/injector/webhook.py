"""The webhook the API server asks before it binds a pod: HTTPS, with a certificate that may change meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import structlog

from ..plan import SpecError, Transient
from .review import Binding, answered

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_IDLE = 120.0
_LARGEST = 1 << 20
"""Bytes; a review of a binding has some two thousand."""


class Webhook:
    """Answers POST requests with an AdmissionReview. Connections are kept, as the API server likes it."""

    def __init__(
        self, bind: Callable[[Binding], Awaitable[None]], certificate: Path, *, look: float = 5, budget: float = 0.5
    ) -> None:
        """`certificate` is a folder with tls.crt and tls.key, looked at every `look` seconds; a binding waits at most
        `budget` seconds for its labels.
        """
        self.serving = False
        self._bind = bind
        self._folder = certificate
        self._look, self._budget = look, budget
        self._shown = ""
        """The certificate that is shown."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._connections: set[asyncio.Task[None]] = set()

    async def serve(self, address: tuple[str, int]) -> None:
        """Serves until canceled, from when there is a certificate on. Raises OSError where the port is taken."""
        while not self._load():  # noqa: ASYNC110  (nothing tells of a file)
            await asyncio.sleep(self._look)
        server = await asyncio.start_server(self._connected, *address, ssl=self._context)
        self.serving = True
        try:
            while True:
                await asyncio.sleep(self._look)
                self._load()
        finally:
            self.serving = False
            server.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def _load(self) -> bool:
        """Load the certificate that is in the folder now, for new connections. Return True if there is one."""
        cert, key = self._folder / "tls.crt", self._folder / "tls.key"
        try:
            text = cert.read_text(encoding="utf-8")
            if text != self._shown:
                # The two may be read from either side of a change: tried first where it does no harm.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
                self._context.load_cert_chain(cert, key)
                self._shown = text
                _log.info("certificate loaded", folder=str(self._folder))
        except (OSError, ValueError) as error:
            _log.warning("no certificate", folder=str(self._folder), error=str(error))
        return bool(self._shown)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError, asyncio.CancelledError):
            # The client closed the connection, or does not speak HTTP; or this program ends.
            pass
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request. Return True if the connection stays open. Raises ValueError for what is no request."""
        async with asyncio.timeout(_IDLE):
            head = await reader.readuntil(b"\r\n\r\n")
        length = _length(head)
        status, content = "413 Content Too Large", b""
        if length <= _LARGEST:
            async with asyncio.timeout(5):
                body = await reader.readexactly(length)
            status, content = await self._content(body)
        keep_alive = status == "200 OK"
        lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(content)}"]
        lines += [] if keep_alive else ["Connection: close"]
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        await writer.drain()
        return keep_alive

    async def _content(self, body: bytes) -> tuple[str, bytes]:
        try:
            binding, answer = answered(body)
        except msgspec.MsgspecError:
            return "400 Bad Request", b""
        if binding:
            await self._label(binding)
        return "200 OK", answer

    async def _label(self, binding: Binding) -> None:
        """Before the answer: what the pod starts reads them through the downward API, and the kubelet hears of the pod
        once it is bound. Whatever happens, it is bound; what is missing then is made good in the background.
        """
        try:
            async with asyncio.timeout(self._budget):
                await self._bind(binding)
        except (Transient, SpecError, TimeoutError) as error:
            namespace, pod = binding.key
            _log.warning("bound without labels", namespace=namespace, pod=pod, error=str(error) or "no answer in time")


def _length(head: bytes) -> int:
    """Bytes of the request's content. Raises ValueError where it does not say, as the API server always does."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    raise ValueError("no Content-Length")
