"""Requests to the cloud, with their times and results."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

FOREVER = float("inf")


@dataclass(frozen=True)
class Attempt:
    """One request, never repeated: a second try is another attempt."""

    kind: str
    began: float
    """Seconds of the machine's monotonic clock."""
    ended: float
    key: str = ""
    """Name of what was written, used only once; empty for requests that write nothing."""
    error: str = ""
    """Empty when it was acknowledged."""


class Journal:
    """Every attempt of a run; safe to use from several threads, and kept in a file as it grows."""

    def __init__(self, path: Path | None = None) -> None:
        self._attempts: list[Attempt] = []
        self._lock = threading.Lock()
        self._path = path
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

    def add(self, attempt: Attempt) -> None:
        """Record the attempt, also in the file."""
        with self._lock:
            self._attempts.append(attempt)
            if self._path:
                with self._path.open("a") as file:
                    file.write(json.dumps(asdict(attempt)) + "\n")

    def between(self, since: float, until: float = FOREVER, kind: str | None = None) -> list[Attempt]:
        """Return the attempts that ended in a span of time, in the order they ended."""
        with self._lock:
            attempts = [a for a in self._attempts if since <= a.ended <= until and kind in {None, a.kind}]
        return sorted(attempts, key=lambda attempt: attempt.ended)

    def acknowledged(self, kind: str) -> set[str]:
        """Return the keys of the writes of a kind that the cloud said it has."""
        with self._lock:
            return {a.key for a in self._attempts if a.kind == kind and a.key and not a.error}

    def failed(self, since: float, until: float = FOREVER) -> dict[str, int]:
        """Return the number of failed attempts by kind, of the kinds that had any."""
        counts: dict[str, int] = {}
        for attempt in self.between(since, until):
            if attempt.error:
                counts[attempt.kind] = counts.get(attempt.kind, 0) + 1
        return dict(sorted(counts.items()))

    def outages(self, since: float, until: float, intervals: dict[str, float]) -> dict[str, float]:
        """Return the longest time in seconds without an acknowledged request by kind, beyond what its interval
        explains.
        """
        return {
            kind: round(longest_gap(self.between(since, until, kind), since, until, interval), 1)
            for kind, interval in sorted(intervals.items())
        }

    def longest_outage(self, kind: str, since: float, until: float) -> tuple[float, float]:
        """Return begin and end of the longest time in which nothing of a kind was acknowledged."""
        moments = [since, *(a.ended for a in self.between(since, until, kind) if not a.error), until]
        return max(pairwise(moments), key=lambda pair: pair[1] - pair[0])

    def errors(self, since: float, until: float = FOREVER) -> dict[str, list[str]]:
        """Return up to three different errors by kind."""
        by_kind: dict[str, list[str]] = {}
        for attempt in self.between(since, until):
            examples = by_kind.setdefault(attempt.kind, []) if attempt.error else []
            if attempt.error and attempt.error not in examples and len(examples) < 3:
                examples.append(attempt.error)
        return dict(sorted(by_kind.items()))


def longest_gap(attempts: Iterable[Attempt], since: float, until: float, interval: float) -> float:
    """Return the longest time in seconds between two acknowledgments in a row, with both ends of the span taken for
    one, less the `interval` at which requests are made; 0 where nothing was late.
    """
    moments = [since, *(a.ended for a in attempts if not a.error), until]
    longest = max(later - earlier for earlier, later in pairwise(moments))
    return max(0.0, longest - interval)


def now() -> float:
    """Return the time by the clock of a journal."""
    return time.monotonic()
