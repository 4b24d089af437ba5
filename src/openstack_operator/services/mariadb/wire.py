"""How members ask each other: in plain text, or through TLS with a certificate on both sides; it runs in their pods."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

from .galera import PORT, SECURE

CERTIFICATE = Path("/etc/mysql/tls")
"""Folder of tls.crt, tls.key and ca.crt, which follows what becomes of them; there is none where nobody encrypts."""


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Listener:
    """Answers at SECURE who shows a certificate, as long as there is one to be shown."""

    def __init__(self, answer: Answer, folder: Path = CERTIFICATE, port: int = SECURE) -> None:
        self._answer, self._folder, self._port = answer, folder, port
        self._shown, self._server = b"", None

    async def follow(self) -> None:
        """Listens with the files that are there now."""
        try:
            found = b"".join((self._folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))
            if found == self._shown:
                return
            context = _context(ssl.PROTOCOL_TLS_SERVER, self._folder)
        except OSError:
            # Also ssl.SSLError: files that do not belong together are being replaced.
            return
        self.close()
        self._server, self._shown = await asyncio.start_server(self._answer, port=self._port, ssl=context), found

    def close(self) -> None:
        """Listens no more."""
        if self._server:
            self._server.close()


async def ask(host: str, path: str, name: str, folder: Path = CERTIFICATE, port: int = SECURE) -> bytes:
    """The body of a 200, empty otherwise; through TLS, of who bears that name, where there is one."""
    try:
        async with asyncio.timeout(1):
            if name:
                context = _context(ssl.PROTOCOL_TLS_CLIENT, folder)
                opened = asyncio.open_connection(host, port, ssl=context, server_hostname=name)
            else:
                opened = asyncio.open_connection(host, PORT)
            reader, writer = await opened
            try:
                writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            finally:
                # To close TLS politely is to wait for the other side, which may never answer.
                writer.transport.abort()
    except (OSError, TimeoutError):
        return b""
    return body if head.startswith(b"HTTP/1.0 200") else b""


def bears(writer: asyncio.StreamWriter, name: str) -> bool:
    """Whether who asks has shown a certificate of that name."""
    certificate = writer.get_extra_info("peercert") or {}
    return ("DNS", name) in certificate.get("subjectAltName", ())


def _context(side: int, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(folder / "ca.crt")
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context
