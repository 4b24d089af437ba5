"""Channels for the HTTP library."""

from __future__ import annotations

import select
import ssl
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import httpcore2

from .channel import Channel


class Backend(httpcore2.SyncBackend):
    """Connections that keep to the budget of their thread."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """Return a connection. The library asks for no address or options of its own."""
        with _errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
            return _Stream(Channel.connect(host, port, timeout))


class _Stream(httpcore2.NetworkStream):
    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._channel.settimeout(timeout)
        with _errors(httpcore2.ReadTimeout, httpcore2.ReadError):
            return self._channel.read(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._channel.settimeout(timeout)
        with _errors(httpcore2.WriteTimeout, httpcore2.WriteError):
            self._channel.sendall(buffer)

    def close(self) -> None:
        self._channel.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        self._channel.settimeout(timeout)
        try:
            with _errors(httpcore2.ConnectTimeout, httpcore2.ConnectError):
                self._channel.secure(ssl_context, server_hostname)
        except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
            self._channel.close()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "ssl_object":
                return self._channel.tls
            case "socket":
                return self._channel.socket
            case "is_readable":
                # A server that says something unasked has closed the connection, or is not to be talked to again.
                poll = select.poll()
                poll.register(self._channel.socket, select.POLLIN)
                return bool(poll.poll(0))
            case _:
                return None


@contextmanager
def _errors(timeout: type[Exception], failure: type[Exception]) -> Generator[None]:
    """Raise errors of the system as those of the library."""
    try:
        yield
    except TimeoutError as error:
        raise timeout(str(error)) from error
    except OSError as error:
        raise failure(str(error)) from error
