"""Requests between members: in plain text, or through TLS with certificates on both sides; it runs in their pods."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from .galera import PORT, TLS_PORT

CERTIFICATE = Path("/etc/mysql/tls")
"""Folder of tls.crt, tls.key and ca.crt, which follows their changes; members that do not encrypt have none."""
LONGEST = 64 << 10
"""Bytes of a request or an answer; they have some hundred."""

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Server at TLS_PORT for callers that show a certificate, while this member has one to show."""

    def __init__(self, answer: Answer, folder: Path = CERTIFICATE, port: int = TLS_PORT) -> None:
        self._answer, self._folder, self._port = answer, folder, port
        self._content = b""
        self._server: asyncio.Server | None = None

    async def follow(self) -> None:
        """Listen with the files as they are now."""
        try:
            content = b"".join((self._folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))
            if content == self._content:
                return
            context = _context(ssl.PROTOCOL_TLS_SERVER, self._folder)
        except OSError:
            # Also ssl.SSLError: files that do not belong together are being replaced.
            return
        self.close()
        self._server, self._content = await asyncio.start_server(self._answer, port=self._port, ssl=context), content

    def close(self) -> None:
        """Stop listening."""
        if self._server:
            self._server.close()


async def ask(host: str, path: str, name: str, folder: Path = CERTIFICATE, port: int = TLS_PORT) -> bytes:
    """Return the body of a 200, empty otherwise; with a name, through TLS from a server whose certificate has it."""
    try:
        async with asyncio.timeout(1):
            if name:
                context = _context(ssl.PROTOCOL_TLS_CLIENT, folder)
                connection = asyncio.open_connection(host, port, ssl=context, server_hostname=name)
            else:
                connection = asyncio.open_connection(host, PORT)
            reader, writer = await connection
            try:
                writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                head, _, body = (await _whole(reader)).partition(b"\r\n\r\n")
            finally:
                # To close TLS politely is to wait for the other side, which may never answer.
                writer.transport.abort()
    except (OSError, EOFError, TimeoutError):
        return b""
    return body if head.startswith(b"HTTP/1.0 200") else b""


async def _whole(reader: asyncio.StreamReader) -> bytes:
    """Return an answer. Raises EOFError for one that is longer than members give."""
    answer = bytearray()
    while piece := await reader.read(LONGEST):
        answer += piece
        if len(answer) > LONGEST:
            raise EOFError
    return bytes(answer)


async def read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    """Return method and path of a request. Raises ValueError or EOFError for one that is none, or too long."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise ValueError from error
    method, path, *_ = [*head.partition(b"\r\n")[0].decode(errors="replace").split(), "", ""]
    return method, path


def has_name(writer: asyncio.StreamWriter, name: str) -> bool:
    """Return True if the caller has shown a certificate of that name."""
    certificate = writer.get_extra_info("peercert") or {}
    return ("DNS", name) in certificate.get("subjectAltName", ())


def _context(side: int, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(folder / "ca.crt")
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context
