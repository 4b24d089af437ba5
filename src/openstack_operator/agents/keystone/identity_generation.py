"""A random mark of the state of the database to which a cached value belongs; each committed change replaces it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

CHANGES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
"""Statements that may make a cached value an old one."""


def new_mark() -> str:
    """Return a mark that is used once: after a restore from a backup, a number would name two states."""
    return secrets.token_hex(8)


class Generation(threading.local):
    """The mark by which the request of this thread reads and writes the cache.

    A request reads it before anything else: what it reads later is as old as its mark, or newer. A request that begins
    after a change was acknowledged has another mark, and so reads nothing that was stored by the mark before, however
    late.
    """

    def __init__(self) -> None:
        self._mark = ""
        self._changing = False

    def begin(self, read: Callable[[], str]) -> None:
        """Begin a request. If `read` raises, the request caches nothing."""
        self._changing, self._mark = False, ""
        self._mark = read()

    @property
    def mark(self) -> str:
        """Part of each key; another one each time while a transaction may be rolled back, or after `read` raised."""
        return new_mark() if self._changing or not self._mark else self._mark

    def note(self, statement: str) -> bool:
        """Return True if the statement changes the database; if so, cache nothing until its transaction ends."""
        changes = statement.lstrip().upper().startswith(CHANGES)
        self._changing = self._changing or changes
        return changes

    def commit(self, write: Callable[[str], object]) -> None:
        """Let `write` make the new mark a part of a transaction with changes, which is about to be committed."""
        mark = new_mark()
        write(mark)
        # If the commit fails, no other process reads this mark, nor what this one stores by it.
        self._changing, self._mark = False, mark

    def roll_back(self) -> None:
        """Note that a transaction with changes was undone."""
        self._changing = False
