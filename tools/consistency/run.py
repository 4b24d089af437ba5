"""A run: clients on three members, faults, final reads, and what the checker says."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from tools.localcluster.cluster import ClusterError
from tools.localcluster.kubernetes import ROOT, KubeError

from .clients import Door
from .faults import FAULTS, LASTING, UPGRADE
from .site import Site
from .work import Judgement, Work

FOLDER = ROOT / "build" / "consistency"
_FINAL = 300.0
"""Seconds that all members have to answer at the end."""


@dataclass(frozen=True)
class Setup:
    """Parameters of a run."""

    label: str
    """Name of the run's files."""
    faults: Sequence[str] = LASTING
    minutes: float = 60.0
    clients: int = 10
    pause: float = 15.0
    """Seconds from the recovery of one fault to the next one."""
    seed: int = 0


@dataclass
class Figures:
    """All that is published of a run."""

    setup: Setup
    facts: dict[str, str]
    seconds: float
    faults: dict[str, int]
    judgement: Judgement

    def problem(self, *, must_find: bool) -> str:
        """Return why the run is not as expected; empty if it is."""
        if must_find:
            return (
                ""
                if self.judgement.anomalies
                else "no anomaly was found where there must be some: this run proves nothing"
            )
        return f"this must not happen: {', '.join(self.judgement.harm)}" if self.judgement.harm else ""


class Run:
    """One run."""

    def __init__(self, site: Site, work: Work, setup: Setup, tell: Callable[[str], None]) -> None:
        self._site, self._work, self._setup, self._tell = site, work, setup, tell
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._path = FOLDER / f"{setup.label}.jsonl"

    def execute(self) -> Figures:
        """Run the clients and the faults, judge, and write the figures. Raises KubeError."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        self._work.prepare()
        facts, start = self._work.facts(), time.monotonic()
        with self._path.open("wb") as file, ThreadPoolExecutor(self._setup.clients) as pool:
            futures = [pool.submit(self._serve, process, file) for process in range(self._setup.clients)]
            try:
                broken = self._break(start + self._setup.minutes * 60)
            finally:
                self._stopping.set()
            for each in futures:
                each.result()
            seconds = time.monotonic() - start
            for member in self._site.members():
                file.write(self._final(member))
        self._work.end()
        return self._figures(facts, seconds, broken)

    def _serve(self, process: int, file: Any) -> None:
        worker = self._work.worker(process)
        while not self._stopping.is_set():
            line = worker.step()
            with self._lock:
                file.write(line)
            if worker.wait:
                self._stopping.wait(worker.wait)
        worker.close()

    def _break(self, deadline: float) -> Counter[str]:
        """Let fault after fault happen until the deadline, and return how often each did."""
        dice, counts = random.Random(self._setup.seed), Counter[str]()
        names = itertools.chain(
            self._setup.faults, itertools.cycle(each for each in self._setup.faults if each != UPGRADE)
        )
        while (remaining := deadline - time.monotonic()) > 0:
            name = next(names, "") if remaining > 2 * self._setup.pause else ""
            if not name:
                time.sleep(remaining)
                break
            time.sleep(self._setup.pause)
            try:
                victim = FAULTS[name](self._site, dice)
            except (KubeError, ClusterError) as error:
                self._tell(f"{name} failed: {error}")
                victim = "failed"
            counts[name] += 1
            self._tell(f"{name} ({victim}): all members Ready again after {self._site.await_ready():.0f} s")
        self._site.await_ready()
        return counts

    def _final(self, member: Door) -> bytes:
        deadline = time.monotonic() + _FINAL
        while True:
            try:
                return self._work.final(member)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise KubeError(f"{member.name} does not answer at the end: {error}") from None
                time.sleep(1)

    def _figures(self, facts: dict[str, str], seconds: float, broken: Counter[str]) -> Figures:
        judgement = self._work.judge(self._path)
        figures = Figures(self._setup, facts, round(seconds, 1), dict(broken), judgement)
        (FOLDER / f"{self._setup.label}.txt").write_text(judgement.text)
        published = asdict(figures)
        del published["judgement"]["text"]
        (FOLDER / f"{self._setup.label}.json").write_text(json.dumps(published, indent=2) + "\n")
        self._tell(judgement.text)
        return figures
