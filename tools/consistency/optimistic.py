"""Transactions of a database that has none: read everything, and write if nothing that was read has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Protocol

from msgspec import structs

from .clients import PAUSE, Door, now
from .history import Append, Operation, Outcome, Transaction

PROBLEMS = (OSError, HTTPException, ValueError, KeyError)
"""Errors of a session with a member that does not answer, or answers otherwise than expected."""


@dataclass(frozen=True)
class Version:
    """A list as it was read."""

    values: tuple[int, ...] = ()
    token: str = ""
    """Name that the database has for this version; empty if there is no list yet."""


def appended(operations: Sequence[Operation], versions: Mapping[int, Version]) -> dict[int, tuple[int, ...]]:
    """Return the new content of the lists that a transaction appends to."""
    contents: dict[int, tuple[int, ...]] = {}
    for each in operations:
        if isinstance(each, Append):
            contents[each.key] = (*contents.get(each.key, versions[each.key].values), each.value)
    return contents


def completed(operations: Sequence[Operation], versions: Mapping[int, Version]) -> list[Operation]:
    """Return a transaction with what its reads saw: its own appends before them, too."""
    contents = {key: version.values for key, version in versions.items()}
    results: list[Operation] = []
    for each in operations:
        if isinstance(each, Append):
            contents[each.key] = (*contents[each.key], each.value)
            results.append(each)
        else:
            results.append(structs.replace(each, values=contents[each.key]))
    return results


class Session(Protocol):
    """A connection to a member; all of it raises what `PROBLEMS` names."""

    def read(self, keys: Iterable[int]) -> dict[int, Version]:
        """Return the present version of keys, all of one moment."""
        ...

    def write(self, versions: Mapping[int, Version], contents: Mapping[int, Sequence[int]]) -> bool:
        """Replace lists if no list has changed since these versions; return False if one has."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class OptimisticClient:
    """A client, which reads first, and writes if what it read is still there."""

    def __init__(
        self, doors: Sequence[Door], process: int, connect: Callable[[Door], Session], pause: float = 0.0
    ) -> None:
        """Wait for `pause` seconds after each transaction."""
        self._pause = pause
        self._doors, self._turn, self._process, self._connect = doors, process, process, connect
        self._session: Session | None = None
        self.wait = 0.0

    def execute(self, operations: Sequence[Operation]) -> Transaction:
        """Execute a transaction once, and return it with its outcome."""
        start, door, is_sent, results, problem = now(), self._door, False, operations, ""
        outcome, self.wait = Outcome.FAILED, self._pause
        try:
            session = self._session = self._session or self._connect(door)
            versions = session.read({each.key for each in operations})
            contents = appended(operations, versions)
            is_sent = bool(contents)
            if not contents or session.write(versions, contents):
                outcome, results = Outcome.OK, completed(operations, versions)
            else:
                problem = "a list has changed"
        except PROBLEMS as error:
            outcome = Outcome.UNKNOWN if is_sent else Outcome.FAILED
            problem = f"{type(error).__name__} {error}"[:120]
            self.close()
            self._turn += 1
            self.wait = PAUSE
        return Transaction(self._process, outcome, start, now(), tuple(results), error=problem, member=door.name)

    @property
    def _door(self) -> Door:
        return self._doors[self._turn % len(self._doors)]

    def close(self) -> None:
        """Close the connection, if there is one."""
        session, self._session = self._session, None
        if session:
            session.close()
