"""Connections of a server: few at a time, each with seconds as a whole, so that no client can keep others away."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from dataclasses import dataclass

CLIENTS = 8
"""Connections at a time. One more ends the oldest of the address that has most of them."""
SECONDS = 10.0
"""Seconds of a connection as a whole: a Prometheus waits no longer."""


@dataclass(eq=False)
class Connection:
    """A connection, whose thread may wait in a read, a write, or for the page."""

    address: str
    control: socket.socket
    """Another descriptor of it: TLS takes the first one over."""
    began: float
    has_ended: bool = False

    def end(self) -> None:
        """Let its reads and writes return."""
        self.has_ended = True
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_RDWR)


class Connections:
    """Connections whose threads run. It has no lock of its own."""

    def __init__(self) -> None:
        self._running: list[Connection] = []

    def open(self, request: socket.socket, address: str, now: float) -> Connection | None:
        """Return a new connection, for which another one may end; None if threads of ended ones have not ended yet."""
        if len(self._running) >= 2 * CLIENTS:
            return None
        alive = self._alive()
        if len(alive) >= CLIENTS:
            # A client with many connections ends its own ones, and not that of a Prometheus.
            counts = Counter(each.address for each in alive)
            counts[address] += 1
            max(alive, key=lambda each: (counts[each.address], -each.began)).end()
        connection = Connection(address, request.dup(), now)
        self._running.append(connection)
        return connection

    def close(self, connection: Connection) -> None:
        """Forget a connection, whose thread ends."""
        self._running.remove(connection)
        connection.control.close()

    def end_late(self, now: float) -> bool:
        """End connections that last too long. Return whether there were such."""
        late = [each for each in self._alive() if now - each.began >= SECONDS]
        for each in late:
            each.end()
        return bool(late)

    def _alive(self) -> list[Connection]:
        return [each for each in self._running if not each.has_ended]
