"""Which state of the database a cached value belongs to: a random mark that each committed change replaces."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
"""Statements that make a cached value one of the past."""


def new_mark() -> str:
    """A mark nobody else has: after a restore from a backup, numbers would name two states."""
    return secrets.token_hex(8)


class Generation(threading.local):
    """The mark by which the request of this thread reads and writes the cache.

    It is read before anything else is: what the request reads later is as old as its mark, or newer. Whoever begins
    after a change was acknowledged has another mark: what others stored by the one before, however late, is not seen.
    """

    def __init__(self) -> None:
        self._mark = ""
        self._changing = False

    def begin(self, read: Callable[[], str]) -> None:
        """A request begins. Where `read` raises, it caches nothing."""
        self._changing, self._mark = False, ""
        self._mark = read()

    @property
    def mark(self) -> str:
        """Part of each key; one of its own each time while a transaction may be rolled back, or nothing is known."""
        return new_mark() if self._changing or not self._mark else self._mark

    def note(self, statement: str) -> bool:
        """Whether the statement changes the database; if so, nothing is cached until its transaction ends."""
        changes = statement.lstrip().upper().startswith(CHANGES)
        self._changing = self._changing or changes
        return changes

    def commit(self, write: Callable[[str], object]) -> None:
        """A transaction with changes is about to be committed: `write` makes the new mark a part of it."""
        mark = new_mark()
        write(mark)
        # Nobody knows it if the commit fails, so that what is stored by it then is never read.
        self._changing, self._mark = False, mark

    def roll_back(self) -> None:
        """A transaction with changes was undone."""
        self._changing = False
