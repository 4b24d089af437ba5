"""The work of clients in a run, and its judgement: appends to the lists of a database."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from . import checker
from .clients import Client, Database, Door
from .history import Outcome, encode, load
from .workload import Workload


@dataclass(frozen=True)
class Judgement:
    """Result of the check of a history."""

    counts: dict[str, int]
    """Of what clients did."""
    anomalies: dict[str, str]
    """Number by name; with a `+` if there may be more."""
    harm: list[str]
    """Anomalies that break a promise."""
    errors: dict[str, int]
    """Number of errors by their beginning, the most frequent ones."""
    longest_outage: float
    """Longest time in seconds without an acknowledgment."""
    check_seconds: float
    """CPU of the checker."""
    text: str
    """The same for readers, with proofs."""


class Worker(Protocol):
    """One client of a run."""

    @property
    def wait(self) -> float:
        """Seconds to wait before the next step."""
        ...

    def step(self) -> bytes:
        """Do the next thing, and return the line of the history that tells of it."""
        ...

    def close(self) -> None:
        """Close the connection, if there is one."""
        ...


class Work(ABC):
    """The work of a run."""

    @abstractmethod
    def prepare(self) -> None:
        """Make the servers ready for clients. Raises KubeError or OSError."""

    @abstractmethod
    def worker(self, process: int) -> Worker:
        """Return a new client of this number."""

    @abstractmethod
    def final(self, member: Door) -> bytes:
        """Return the lines of what a member has at the end. Raises OSError if it does not answer."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return the version and the settings on which the result depends. Raises KubeError or OSError."""

    @abstractmethod
    def end(self) -> None:
        """Undo what `prepare` changed. Raises OSError."""

    @abstractmethod
    def judge(self, path: Path) -> Judgement:
        """Judge a history. Raises OSError and ValueError."""


class Lists(Work):
    """Transactions of appends to lists and of reads, in a database."""

    def __init__(self, database: Database, seed: int, readers: int = 0) -> None:
        """So many clients only read: a client that also writes waits at a member that cannot."""
        self._database, self._readers = database, readers
        self._workload = Workload(seed)

    def prepare(self) -> None:
        """Make the database ready for clients. Raises KubeError or OSError."""
        self._database.prepare()

    def worker(self, process: int) -> Worker:
        """Return a new client."""
        return _Appender(self._database.client(process), self._workload, only_reads=process < self._readers)

    def final(self, member: Door) -> bytes:
        """Return the line of a final read of all lists. Raises OSError if the member does not answer."""
        return encode(self._database.read_all(member, self._workload.keys))

    def facts(self) -> dict[str, str]:
        """Return the facts of the database. Raises KubeError or OSError."""
        return self._database.facts()

    def end(self) -> None:
        """Undo what `prepare` changed. Raises OSError."""
        self._database.end()

    def judge(self, path: Path) -> Judgement:
        """Judge a history. Raises OSError and ValueError."""
        return judge(path, self._database.harm)


@dataclass
class _Appender:
    """Executes transactions of a workload."""

    client: Client
    workload: Workload
    only_reads: bool

    @property
    def wait(self) -> float:
        return self.client.wait

    def step(self) -> bytes:
        return encode(self.client.execute(self.workload.transaction(only_reads=self.only_reads)))

    def close(self) -> None:
        self.client.close()


def judge(path: Path, harm: frozenset[str]) -> Judgement:
    """Judge a history of list appends by Elle's method. Raises OSError and ValueError."""
    start = time.process_time()
    history = load(path)
    verdict = checker.check(history)
    spent = time.process_time() - start
    ends = [each.end for each in history if each.outcome is Outcome.OK and not each.is_final]
    errors = [f"{each.outcome.value}: {each.error[:60]}" for each in history if each.error]
    return Judgement(
        {
            **verdict.transactions,
            "acknowledged appends": verdict.appends,
            "acknowledged appends without a final read": verdict.unjudged,
        },
        {name: f"{each.count}{'' if each.is_complete else '+'}" for name, each in verdict.anomalies.items()},
        sorted(harm & verdict.anomalies.keys()),
        most_frequent(errors),
        longest_gap(ends),
        round(spent, 1),
        "\n".join([*checker.explain(history, verdict), ""]),
    )


def most_frequent(errors: list[str]) -> dict[str, int]:
    """Return the eight most frequent errors, with their number."""
    return dict(Counter(errors).most_common(8))


def longest_gap(ends: list[int]) -> float:
    """Return the longest time in seconds between two of these moments, in microseconds."""
    gaps = [later - earlier for earlier, later in pairwise(sorted(ends))]
    return round(max(gaps, default=0) / 1e6, 1)
