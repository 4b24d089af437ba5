"""A time by which a request is over, however slowly a server answers: timeouts of sockets count from one byte to the
next, so that a server that sends one now and then holds its client without end.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import local
from typing import Any

import httpcore2

from . import egress


class _Until(local):
    """Of the request that this thread makes."""

    at: float = float("inf")


_until = _Until()


@contextmanager
def deadline(seconds: float) -> Generator[None]:
    """Limit reads and writes of this thread over streams of a `Backend` to that time in total."""
    before = _until.at
    _until.at = min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _until.at = before


def _remaining_seconds(timeout: float | None, error: type[Exception]) -> float | None:
    """The timeout of one operation; raises the error where no time is left."""
    remaining = _until.at - time.monotonic()
    if remaining <= 0:
        raise error("it takes too long as a whole")
    if remaining == float("inf"):
        return timeout
    return remaining if timeout is None else min(timeout, remaining)


class Backend(httpcore2.SyncBackend):
    """Connections that keep to the deadline of their thread."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        failed: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in _addresses(host, port):
            try:
                remaining = _remaining_seconds(timeout, httpcore2.ConnectTimeout)
                return _Stream(super().connect_tcp(address, port, remaining, local_address, socket_options))
            except httpcore2.ConnectError as error:
                failed = error
        raise failed


def _addresses(host: str, port: int) -> list[str]:
    try:
        return egress.addresses(host, port)
    except OSError as error:
        raise httpcore2.ConnectError(str(error)) from error


class _Stream(httpcore2.NetworkStream):
    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _remaining_seconds(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _remaining_seconds(timeout, httpcore2.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        remaining = _remaining_seconds(timeout, httpcore2.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, remaining))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
