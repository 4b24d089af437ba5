"""The webhook the API server asks before it binds a pod: HTTPS, with a certificate that may change meanwhile."""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import structlog

from ..plan import SpecError, Transient
from ..runtime.process import any_of
from ..runtime.serve.listener import Bounds, Listener
from .object_names import CALLER
from .review import Binding, answered

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_IDLE = 120.0
_FIRST = 5.0
"""Seconds until the first request of a connection, and until the whole of any request."""
_LARGEST = 64 << 10
"""Bytes; a review of a binding has some two thousand."""
_BOUNDS = Bounds(connections=64, of_one=16, request=8 << 10, handshake=5.0, pace=0.005)
"""An API server keeps a few connections, each for many requests."""


class Webhook:
    """Answers POST requests with an AdmissionReview. Connections are kept, as the API server likes it."""

    def __init__(
        self, bind: Callable[[Binding], Awaitable[None]], certificate: Path, *, look: float = 5, budget: float = 0.5
    ) -> None:
        """`certificate` is a folder with tls.crt, tls.key and the path that the API server calls, as `caller`. It is
        looked at every `look` seconds. A binding waits at most `budget` seconds for its labels.
        """
        self.serving = False
        self._bind = bind
        self._folder = certificate
        self._look, self._budget = look, budget
        self._shown = ""
        """The certificate that is shown."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._caller = ""

    async def serve(self, address: tuple[str, int]) -> None:
        """Serve until canceled, as soon as there is a certificate. Raises OSError where the port is taken."""
        while not self._load():  # noqa: ASYNC110  (nothing tells of a file)
            await asyncio.sleep(self._look)
        self.serving = True
        try:
            await any_of(self._follow(), Listener(self._connected, _BOUNDS, lambda: self._context).serve(address))
        finally:
            self.serving = False

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._look)
            self._load()

    def _load(self) -> bool:
        """Load the certificate that is in the folder now, for new connections. Return True if there is one."""
        cert, key, caller = (self._folder / name for name in ("tls.crt", "tls.key", CALLER))
        try:
            # A certifier of an earlier version has written none.
            self._caller = caller.read_text(encoding="utf-8") if caller.exists() else ""
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
        patience = _FIRST
        while await self._answer(reader, writer, patience):
            patience = _IDLE

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float) -> bool:
        """Answer one request. Return True if the connection stays open. Raises ValueError for what is no request."""
        async with asyncio.timeout(patience):
            head = await reader.readuntil(b"\r\n\r\n")
        status, content = "413 Content Too Large", b""
        if not self._is_caller(head):
            # Of what is here, it learns nothing.
            status = "404 Not Found"
        elif (length := _length(head)) <= _LARGEST:
            async with asyncio.timeout(_FIRST):
                body = await reader.readexactly(length)
            status, content = await self._content(body)
        keep_alive = status == "200 OK"
        lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", f"Content-Length: {len(content)}"]
        lines += [] if keep_alive else ["Connection: close"]
        async with asyncio.timeout(_FIRST):
            writer.write("\r\n".join([*lines, "", ""]).encode() + content)
            await writer.drain()
            if not keep_alive:
                writer.close()
                await writer.wait_closed()
        return keep_alive

    def _is_caller(self, head: bytes) -> bool:
        """Return True if a request is for the path that the API server alone knows."""
        method, path, _ = head.partition(b"\r\n")[0].split(b" ", 2)
        if method != b"POST":
            return False
        # The API server adds how long it waits.
        return not self._caller or hmac.compare_digest(path.partition(b"?")[0], f"/{self._caller}".encode())

    async def _content(self, body: bytes) -> tuple[str, bytes]:
        try:
            binding, answer = answered(body)
        except msgspec.MsgspecError:
            return "400 Bad Request", b""
        if binding:
            await self._label(binding)
        return "200 OK", answer

    async def _label(self, binding: Binding) -> None:
        """Label the pod before the answer: its programs read the labels through the downward API, and the kubelet
        starts them once the pod is bound. Whatever happens, it is bound; missing labels are then added in the
        background.
        """
        try:
            async with asyncio.timeout(self._budget):
                await self._bind(binding)
        except (Transient, SpecError, TimeoutError) as error:
            namespace, pod = binding.key
            _log.warning("bound without labels", namespace=namespace, pod=pod, error=str(error) or "no answer in time")


def _length(head: bytes) -> int:
    """Return the length of the request's content in bytes. Raises ValueError if it is not stated, as the API server
    always does.
    """
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return int(value)
    raise ValueError("no Content-Length")
