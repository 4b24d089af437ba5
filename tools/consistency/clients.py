"""Clients of a run, and the databases that they append lists in."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .history import Operation, Transaction

CONNECT, ANSWER = 2.0, 10.0
"""Seconds that a client waits for a connection, and for an answer."""
PAUSE = 0.2
"""Seconds that a client waits before it takes another server."""


def now() -> int:
    """Return microseconds of the clock of histories."""
    return time.monotonic_ns() // 1000


@dataclass(frozen=True)
class Door:
    """An address at which a server answers."""

    name: str
    host: str
    port: int


class Client(Protocol):
    """One client. It stays with a server until the connection fails, and takes the next one then."""

    wait: float
    """Seconds to wait before the next transaction."""

    def execute(self, operations: Sequence[Operation]) -> Transaction:
        """Execute a transaction once, and return it with its outcome."""
        ...

    def close(self) -> None:
        """Close the connection, if there is one."""
        ...


class Database(ABC):
    """A database of several members, empty at the beginning of a run."""

    harm: frozenset[str]
    """Anomalies that break what it promises."""

    @abstractmethod
    def prepare(self) -> None:
        """Make it ready for clients. Raises KubeError or OSError."""

    @abstractmethod
    def client(self, process: int) -> Client:
        """Return a new client of this number."""

    @abstractmethod
    def read_all(self, member: Door, keys: int) -> Transaction:
        """Return a final read of all keys, of what all members have committed. Raises OSError if the member does not
        answer.
        """

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return the version and the settings on which the result depends. Raises KubeError or OSError."""

    def end(self) -> None:  # noqa: B027  (most leave nothing behind)
        """Undo what `prepare` changed. Raises OSError."""
