"""The one way to read from a server that a resource names, and to write to it: within the budget of the thread, and
for as long as this process may act.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from ..plan.fence import check_fence
from . import budget, egress

_PIECE = 1 << 16
"""Most bytes that are read at once."""

ResultT = TypeVar("ResultT")


@contextmanager
def _exhaustion() -> Generator[None]:
    """Say of a wait that was over whether it was the last one."""
    try:
        yield
    except TimeoutError:
        budget.current().wait()
        raise


class Channel:
    """A connection. Its operations raise OSError; that is ExhaustedError once the thread's budget is used up. Those
    that send raise what the fence of the thread raises.

    TLS goes through memory, because Python's own sockets with TLS read as many records as come, without a look at the
    time, until one of them has content.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.tls: ssl.SSLObject | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._timeout: float | None = None

    @classmethod
    def connect(cls, host: str, port: int, timeout: float | None = None) -> Self:
        """Return a connection to a server that a resource names. Raises OSError as `egress.connect` does."""
        return cls(egress.connect(host, port, timeout))

    def settimeout(self, seconds: float | None) -> None:
        """Let each later operation wait so long at most."""
        self._timeout = seconds

    def read(self, most: int = _PIECE) -> bytes:
        """Return some bytes, at least one; nothing once the server has closed the connection."""
        if self.tls is None:
            return self._receive(min(most, _PIECE))
        tls = self.tls
        try:
            return self._through_tls(lambda: tls.read(most))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    def read_exactly(self, size: int) -> bytes:
        """Return so many bytes. Raises OSError if the server closes the connection before."""
        data = bytearray()
        while missing := size - len(data):
            if not (piece := self.read(missing)):
                raise OSError("the server closed the connection")
            data += piece
        return bytes(data)

    def sendall(self, data: bytes) -> None:
        """Send all of it."""
        if self.tls is None:
            self._send(data)
            return
        tls, view = self.tls, memoryview(data)
        while view:
            view = view[self._through_tls(lambda rest=view: tls.write(rest)) :]

    def secure(self, context: ssl.SSLContext, name: str | None = None) -> None:
        """Begin TLS, with the server of that name."""
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        self._through_tls(self.tls.do_handshake)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def makefile(self, *_: Any) -> Self:
        """Return what a client reads from that asks for a file."""
        return self

    def _receive(self, most: int) -> bytes:
        self.socket.settimeout(budget.current().wait(self._timeout))
        with _exhaustion():
            data = self.socket.recv(most)
        budget.current().count(len(data))
        return data

    def _send(self, data: bytes) -> None:
        check_fence()
        self.socket.settimeout(budget.current().wait(self._timeout))
        with _exhaustion():
            self.socket.sendall(data)

    def _through_tls(self, step: Callable[[], ResultT]) -> ResultT:
        """Return the result of a step, for which bytes go to the server and come from it as TLS needs them."""
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                self._flush()
            except ssl.SSLError:
                # The server may read why.
                self._flush()
                raise
            else:
                self._flush()
                return result
            if piece := self._receive(_PIECE):
                self._incoming.write(piece)
            else:
                self._incoming.write_eof()

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._send(data)
