"""A connection to MariaDB that a hostile server cannot hold, fill, or talk into giving the password away.

PyMySQL restarts its timeout for each piece of an answer, keeps all rows, and logs in as the server wishes, also in
clear text.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pymysql
import pymysql.connections

from .budget import limited
from .channel import Channel

if TYPE_CHECKING:
    # The stubs alone know of a parameter.
    _Driver = pymysql.connections.Connection[Any]
else:
    _Driver = pymysql.connections.Connection

_WHOLE = 40.0
"""Seconds after which all work over a connection ends."""

_MOST = 2 << 20
"""Bytes that are read over a connection; the operator asks for single schemas, accounts and grants."""

_CHALLENGES = frozenset({"mysql_native_password", "client_ed25519"})
"""Ways to log in that prove the password without telling it."""

_TELLING = frozenset(
    {"auth_gssapi_client", "caching_sha2_password", "dialog", "mysql_clear_password", "mysql_old_password"}
    | {"sha256_password"}
)
"""Others that there are; what else a server calls one is not quoted."""

NONSENSE = (struct.error, AssertionError, IndexError, RuntimeError, TypeError, ValueError)
"""Errors that the driver raises for answers that are not of this protocol, or that it must not follow."""


class Trouble(pymysql.OperationalError):
    """Error of this module about a connection; without the server's text, which errors of the driver hold."""


@contextmanager
def limits() -> Generator[None]:
    """Limit all work over a connection meanwhile."""
    with limited(seconds=_WHOLE, received=_MOST):
        yield


class _Securing:
    """Stand-in for the context by which the driver begins TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def wrap_socket(self, channel: Channel, *, server_hostname: str) -> Channel:
        """Return the same connection, through TLS."""
        channel.secure(self._context, server_hostname)
        return channel


class Connection(_Driver):
    """Keeps to the budget of its thread, and answers challenges alone. Raises pymysql.OperationalError."""

    # The driver has no public way to say any of what follows; tests against hostile servers tell when it changes.
    _auth_plugin_name: str
    _current_timeout: float | None
    _read_timeout: float | None
    _sock: Channel
    ctx: Any
    ssl: bool

    def connect(self, sock: socket.socket | None = None) -> None:
        """Connect, whatever socket there may be."""
        try:
            channel = Channel.connect(self.host, self.port, self.connect_timeout)
        except OSError as error:
            raise Trouble(f"cannot connect ({error})") from error
        if self.ssl:
            self.ctx = _Securing(self.ctx)
        # It asks of a socket what a channel has.
        super().connect(channel)  # type: ignore[arg-type]

    def _get_server_information(self) -> None:
        super()._get_server_information()  # pyright: ignore
        self._challenged(self._auth_plugin_name or "mysql_native_password")

    def _process_auth(self, plugin_name: bytes, auth_packet: Any, handler: Any = None) -> Any:
        self._challenged(plugin_name.decode("ascii", errors="replace"))
        return super()._process_auth(plugin_name, auth_packet, handler)  # pyright: ignore

    def _challenged(self, method: str) -> None:
        if method not in _CHALLENGES:
            self._force_close()  # pyright: ignore
            method_name = repr(method) if method in _TELLING else "another way"
            raise Trouble(f"the server asks for the password in clear text ({method_name})")

    def _read_bytes(self, num_bytes: int) -> bytes:
        """Read bytes, for no longer than the connection may last, however slowly they come."""
        self._sock.settimeout(self._read_timeout)
        self._current_timeout = self._read_timeout
        try:
            return self._sock.read_exactly(num_bytes)
        except OSError as error:
            self._force_close()  # pyright: ignore
            raise Trouble(str(error)) from error
