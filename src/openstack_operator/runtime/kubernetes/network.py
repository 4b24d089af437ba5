"""Connections of asyncio for the HTTP library, whose own ones serve any event loop, and take twice as much CPU."""

# ruff: noqa: ASYNC109  (the library names its parameters)
from __future__ import annotations

import asyncio
import select
import ssl
from asyncio import sslproto
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any, cast

import httpcore2

_MOST_UNREAD = 256 << 10
"""Bytes that a connection holds before it lets the server wait."""
_HAPPY_EYEBALLS = 0.25
"""Seconds after which the next address of a host is tried beside the one before (RFC 8305)."""
_TLS_BUFFER = 32 << 10
"""Bytes that a connection holds of what it has not decrypted: a record of TLS has at most 16 KiB (RFC 8446). asyncio
holds 256 KiB for each connection, and the operator has one for each kind that it watches.
"""

sslproto.SSLProtocol.max_size = _TLS_BUFFER


class Backend(httpcore2.AsyncNetworkBackend):
    """A maker of connections in the running event loop."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Return a connection. The library asks for no address or options of its own."""
        with _errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            async with asyncio.timeout(timeout):
                loop = asyncio.get_running_loop()
                _, stream = await loop.create_connection(_Stream, host, port, happy_eyeballs_delay=_HAPPY_EYEBALLS)
                return stream

    async def sleep(self, seconds: float) -> None:
        """Wait, as the library does between two tries to connect."""
        await asyncio.sleep(seconds)


class _Stream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._unread = bytearray()
        self._is_over = False
        """True once nothing more comes."""
        self._error: Exception | None = None
        self._is_full = False
        """True while the system takes no more of what is written."""
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._unread += data
        if len(self._unread) > _MOST_UNREAD:
            self._transport.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> None:
        self._is_over = True
        _wake(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over, self._is_full, self._error = True, False, exc
        _wake(self._reader)
        _wake(self._writer)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        _wake(self._writer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _errors(httpcore2.ReadTimeout, httpcore2.ReadError):
            while not self._unread:
                if self._error:
                    raise self._error
                if self._is_over:
                    return b""
                self._reader = asyncio.get_running_loop().create_future()
                await _within(timeout, self._reader)
        data = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        if len(self._unread) <= _MOST_UNREAD and not self._is_over:
            self._transport.resume_reading()
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _errors(httpcore2.WriteTimeout, httpcore2.WriteError):
            if self._is_over or self._transport.is_closing():
                raise self._error or ConnectionResetError("the connection is closed")
            if buffer:
                self._transport.write(buffer)
            while self._is_full:
                self._writer = asyncio.get_running_loop().create_future()
                await _within(timeout, self._writer)

    async def aclose(self) -> None:
        # To close TLS politely is to wait for the other side.
        self._transport.abort()
        # Within this turn of the loop the system's socket is closed.
        await asyncio.sleep(0)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        plain, is_secure = self._transport, False
        try:
            with _errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
                async with asyncio.timeout(timeout):
                    loop = asyncio.get_running_loop()
                    secure = await loop.start_tls(plain, self, ssl_context, server_hostname=server_hostname)
                if secure is None:
                    raise ConnectionResetError("the connection ended with its handshake")
            self._transport, is_secure = secure, True
        finally:
            if not is_secure:
                await self.aclose()
        return self

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "ssl_object":
                return self._transport.get_extra_info("ssl_object")
            case "socket":
                return self._transport.get_extra_info("socket")
            case "is_readable":
                # A server that says something unasked has closed the connection, or is not to be talked to again.
                return bool(self._unread) or self._is_over or self._transport.is_closing() or self._has_input()
            case _:
                return None

    def _has_input(self) -> bool:
        """Return whether something came that the event loop has not read yet."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return bool(poll.poll(0))


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter and not waiter.done():
        waiter.set_result(None)


async def _within(seconds: float | None, waiter: asyncio.Future[None]) -> None:
    """Wait until the future is done. Raises TimeoutError."""
    if seconds is None:
        await waiter
        return
    timer = asyncio.get_running_loop().call_later(seconds, _time_out, waiter)
    try:
        await waiter
    finally:
        timer.cancel()


def _time_out(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(TimeoutError("no data in time"))


@contextmanager
def _errors(timeout: type[Exception], failure: type[Exception]) -> Generator[None]:
    """Raise errors of the system as those of the library."""
    try:
        yield
    except TimeoutError as error:
        raise timeout(str(error)) from error
    except OSError as error:
        raise failure(str(error)) from error
