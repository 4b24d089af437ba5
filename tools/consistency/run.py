"""A run: clients on a cluster of three members, faults, final reads, and what the checker says."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pymysql

from tools.localcluster.cluster import ClusterError
from tools.localcluster.kubernetes import ROOT, KubeError

from . import checker
from .faults import FAULTS
from .history import Outcome, Transaction, encode, load
from .mariadb import ISOLATION, SAFE_FLUSH, Access, Client, Door
from .site import Site
from .workload import Workload

FOLDER = ROOT / "build" / "consistency"
HARM = frozenset(
    {checker.LOST, checker.DIVERGED, checker.ABORTED, checker.INTERMEDIATE, checker.UNWRITTEN, checker.DUPLICATE}
    | {checker.INCOMPATIBLE, "G0", "G1c"}
)
"""Anomalies that no isolation level of MariaDB excuses. REPEATABLE READ allows the others. A value that vanished is not
among them, unless its commit was acknowledged: InnoDB shows a commit to others before it is on the disk, and a power
cut in between takes it back. docs/evidence/consistency.md counts these.
"""
_FINAL = 300.0
"""Seconds that all members have to answer at the end."""


@dataclass(frozen=True)
class Setup:
    """Parameters of a run."""

    through: str = "door"
    isolation: str = ISOLATION[0]
    faults: Sequence[str] = tuple(FAULTS)
    minutes: float = 60.0
    clients: int = 10
    pause: float = 15.0
    """Seconds from the recovery of one fault to the next one."""
    has_unsafe_flush: bool = False
    seed: int = 0

    @property
    def label(self) -> str:
        """Name of the run's files."""
        flush = "-unsafe" if self.has_unsafe_flush else ""
        return f"{self.through}-{self.isolation.lower().replace(' ', '-')}{flush}"


@dataclass
class Figures:
    """All that is published of a run."""

    setup: Setup
    facts: dict[str, str]
    seconds: float
    transactions: dict[str, int]
    acknowledged_appends: int
    appends_without_final_read: int
    faults: dict[str, int]
    errors: dict[str, int]
    """Number of errors by their beginning, the most frequent ones."""
    longest_outage: float
    """Longest time in seconds without an acknowledged transaction."""
    check_seconds: float
    """CPU of the checker."""
    anomalies: dict[str, str]
    harm: list[str] = field(default_factory=list[str])

    def problem(self, *, must_find: bool) -> str:
        """Return why the run is not as expected; empty if it is."""
        if must_find:
            return "" if self.anomalies else "no anomaly was found where there must be some: this run proves nothing"
        return f"this must not happen: {', '.join(self.harm)}" if self.harm else ""


class Run:
    """One run."""

    def __init__(self, site: Site, setup: Setup, tell: Callable[[str], None]) -> None:
        self._site, self._setup, self._tell = site, setup, tell
        self._members = site.members()
        doors = [site.door()] if setup.through == "door" else self._members
        self._access = Access(doors, site.password(), setup.isolation, setup.has_unsafe_flush)
        self._workload = Workload(setup.seed)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._path = FOLDER / f"{setup.label}.jsonl"

    def execute(self) -> Figures:
        """Run the clients and the faults, judge, and write the figures. Raises KubeError."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._access.prepare(self._access.doors[0])
        flushes = {member: self._access.flush(member) for member in self._members}
        if not self._setup.has_unsafe_flush and set(flushes.values()) != {SAFE_FLUSH}:
            raise KubeError("a member acknowledges commits before they are on the disk; delete its pod, and try again")
        facts, start = self._site.facts(), time.monotonic()
        with self._path.open("wb") as file, ThreadPoolExecutor(self._setup.clients) as pool:
            futures = [pool.submit(self._serve, process, file) for process in range(self._setup.clients)]
            try:
                broken = self._break(start + self._setup.minutes * 60)
            finally:
                self._stopping.set()
            for each in futures:
                each.result()
            seconds = time.monotonic() - start
            for member in self._members:
                file.write(encode(self._final_read(member)))
        for member in self._members:
            self._access.set_flush(member, flushes[member])
        return self._figures(facts, seconds, broken)

    def _serve(self, process: int, file: Any) -> None:
        client = Client(self._access, process)
        while not self._stopping.is_set():
            line = encode(client.execute(self._workload.transaction()))
            with self._lock:
                file.write(line)
            if client.wait:
                self._stopping.wait(client.wait)
        client.close()

    def _break(self, deadline: float) -> Counter[str]:
        """Let fault after fault happen until the deadline, and return how often each did."""
        dice, counts = random.Random(self._setup.seed), Counter[str]()
        while (remaining := deadline - time.monotonic()) > 0:
            if not self._setup.faults or remaining < 2 * self._setup.pause:
                time.sleep(remaining)
                break
            time.sleep(self._setup.pause)
            name = self._setup.faults[counts.total() % len(self._setup.faults)]
            try:
                victim = FAULTS[name](self._site, dice)
            except (KubeError, ClusterError) as error:
                self._tell(f"{name} failed: {error}")
                victim = "failed"
            counts[name] += 1
            self._tell(f"{name} ({victim}): all members Ready again after {self._site.await_ready():.0f} s")
        self._site.await_ready()
        return counts

    def _final_read(self, member: Door) -> Transaction:
        deadline = time.monotonic() + _FINAL
        while True:
            try:
                return self._access.read_all(member, self._workload.keys)
            except (pymysql.err.Error, OSError) as error:
                if time.monotonic() > deadline:
                    raise KubeError(f"{member.name} does not answer at the end: {error}") from None
                time.sleep(1)

    def _figures(self, facts: dict[str, str], seconds: float, broken: Counter[str]) -> Figures:
        start = time.process_time()
        history = load(self._path)
        verdict = checker.check(history)
        spent = time.process_time() - start
        ends = sorted(each.end for each in history if each.outcome is Outcome.OK and not each.is_final)
        gaps = [later - earlier for earlier, later in pairwise(ends)]
        errors = Counter(f"{each.outcome.value}: {each.error[:60]}" for each in history if each.error)
        figures = Figures(
            self._setup,
            facts,
            round(seconds, 1),
            verdict.transactions,
            verdict.appends,
            verdict.unjudged,
            dict(broken),
            dict(errors.most_common(8)),
            round(max(gaps, default=0) / 1e6, 1),
            round(spent, 1),
            {name: f"{each.count}{'' if each.is_complete else '+'}" for name, each in verdict.anomalies.items()},
            sorted(HARM & verdict.anomalies.keys()),
        )
        text = "\n".join([*checker.explain(history, verdict), ""])
        (FOLDER / f"{self._setup.label}.txt").write_text(text)
        (FOLDER / f"{self._setup.label}.json").write_text(json.dumps(asdict(figures), indent=2) + "\n")
        self._tell(text)
        return figures


def judge(path: Path) -> tuple[Sequence[Transaction], checker.Verdict]:
    """Return the history of a file, and the verdict on it. Raises OSError and ValueError."""
    history = load(path)
    return history, checker.check(history)
