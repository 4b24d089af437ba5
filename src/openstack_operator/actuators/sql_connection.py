"""A connection to MariaDB that a hostile server cannot hold, fill, or talk into giving the password away.

PyMySQL restarts its timeout for each piece of an answer, keeps all rows, and logs in as the server wishes, also in
clear text.
"""

from __future__ import annotations

import socket
import struct
import time
from io import BufferedReader
from typing import TYPE_CHECKING, Any, NoReturn

import pymysql
import pymysql.connections

from . import egress

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


class Connection(_Driver):
    """Ends after some time and some bytes, and answers challenges alone. Raises pymysql.OperationalError."""

    # The driver has no public way to say any of what follows; tests against hostile servers tell when it changes.
    _auth_plugin_name: str
    _current_timeout: float | None
    _read_timeout: float | None
    _rfile: BufferedReader
    _sock: socket.socket

    def __init__(self, **how: Any) -> None:
        self._ends = time.monotonic() + _WHOLE
        self._bytes_left = _MOST
        super().__init__(**how)

    def connect(self, sock: socket.socket | None = None) -> None:
        if sock is None:
            try:
                sock = egress.connect(self.host, self.port, self.connect_timeout)
            except OSError as error:
                raise Trouble(f"cannot connect ({error})") from error
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connect(sock)

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
            raise Trouble(f"the server asks for the password by {method_name}, which would tell it")

    def _read_bytes(self, num_bytes: int) -> bytes:
        """Waits no longer than the connection may last, however slowly the bytes come."""
        self._bytes_left -= num_bytes
        if self._bytes_left < 0:
            self._give_up(f"its answers are longer than {_MOST >> 20} MiB")
        data = bytearray()
        while missing := num_bytes - len(data):
            remaining = self._ends - time.monotonic()
            if remaining <= 0:
                self._give_up(_late())
            self._current_timeout = min(remaining, self._read_timeout or remaining)
            self._sock.settimeout(self._current_timeout)
            try:
                piece = self._rfile.read1(missing)
            except OSError as error:
                self._give_up(str(error) if time.monotonic() < self._ends else _late())
            if not piece:
                self._give_up("it closed the connection")
            data += piece
        return bytes(data)

    def _give_up(self, why: str) -> NoReturn:
        self._force_close()  # pyright: ignore
        raise Trouble(why)


def _late() -> str:
    return f"its answers take longer than {_WHOLE:.0f} s"
