"""Random transactions of appends and reads, to a few keys at a time."""

from __future__ import annotations

import random
import threading

from .history import Append, Operation, Read

KEYS = 8
"""Keys in use at the same time: so few that transactions meet."""
APPENDS = 40
"""Appends to a key until another one takes its place: lists stay short, and each read proves much."""
_MOST = 4
"""Operations of a transaction."""


class Workload:
    """Source of transactions; safe to use from several threads."""

    def __init__(self, seed: int, keys: int = KEYS, appends: int = APPENDS) -> None:
        self._dice = random.Random(seed)
        self._lock = threading.Lock()
        self._appends = appends
        self._last_values = dict.fromkeys(range(keys), 0)
        self.keys = keys
        """Number of keys so far; they are numbered from 0."""

    def transaction(self, *, only_reads: bool = False) -> tuple[Operation, ...]:
        """Return the operations of a new transaction, whose reads have no answer yet."""
        with self._lock:
            return tuple(self._operation(only_reads=only_reads) for _ in range(self._dice.randint(1, _MOST)))

    def _operation(self, *, only_reads: bool) -> Operation:
        key = self._dice.choice([*self._last_values])
        if only_reads or self._dice.random() < 0.5:
            return Read(key)
        value = self._last_values[key] = self._last_values[key] + 1
        if value == self._appends:
            del self._last_values[key]
            self._last_values[self.keys] = 0
            self.keys += 1
        return Append(key, value)
