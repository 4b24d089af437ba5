"""The ledger of the longer suites: `python -m tests.suites run NAME -- COMMAND` adds a line, `list` prints the last.

A line is there from the moment a suite begins, so that one that is killed leaves its trace. How many tests passed comes
from the programs themselves: each that runs below `run` writes its counts into the folder $SUITE_COUNTS.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("tests.suites")

import argparse
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LEDGER = ROOT / "docs" / "evidence" / "suites.md"
COUNTS = "SUITE_COUNTS"
UNKNOWN = "-"
"""Of a figure that nobody wrote down."""
RUNNING, INTERRUPTED, NEVER = "no end was recorded", "interrupted", "never"
_OUTCOMES = ("passed", "failed", "skipped")


@dataclass(frozen=True)
class Run:
    """One run of a suite, as the ledger has it."""

    suite: str
    date: str = NEVER
    """Of its beginning, to the minute, in UTC."""
    commit: str = UNKNOWN
    """What was tested; with a `+` where files had been changed since."""
    minutes: str = UNKNOWN
    passed: str = UNKNOWN
    failed: str = UNKNOWN
    skipped: str = UNKNOWN
    note: str = ""

    def __str__(self) -> str:
        return f"| {' | '.join(cell.replace('|', '/') for cell in astuple(self))} |"


def parse(text: str) -> list[Run]:
    """The runs of a ledger, in its order."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    width = len(fields(Run))
    return [Run(*row) for row in rows if len(row) == width and re.match(r"\d{4}-", row[1])]


def last_runs(runs: Sequence[Run], suites: Sequence[str]) -> list[Run]:
    """Of each suite its last run; first what never ran, then the oldest."""
    last = {name: Run(name) for name in [*suites, *(run.suite for run in runs)]}
    for run in runs:
        last[run.suite] = max(last[run.suite], run, key=lambda each: each.date if each.date != NEVER else "")
    return sorted(last.values(), key=lambda run: (run.date != NEVER, run.date, run.suite))


def suites(makefile: str) -> list[str]:
    """The suites that a Makefile records."""
    return sorted(re.findall(r"^([\w-]+):.*\n(?:\t.*\n)*?\t\$\((?:RECORD|E2E)\)", makefile, re.MULTILINE))


def run(name: str, command: Sequence[str], ledger: Path = LEDGER) -> int:
    """The exit status of a suite, whose line is in the ledger then."""
    began = Run(name, f"{datetime.now(UTC):%Y-%m-%d %H:%M}", _commit(ledger), note=RUNNING)
    started = time.monotonic()
    _write(ledger, began, None)
    with tempfile.TemporaryDirectory() as folder:
        status, note = _status(command, {**os.environ, COUNTS: folder})
        counts = _counted(Path(folder))
    minutes = f"{(time.monotonic() - started) / 60:.0f}"
    figures = {outcome: str(counts[outcome]) if counts else UNKNOWN for outcome in _OUTCOMES}
    _write(ledger, replace(began, minutes=minutes, note=note, **figures), began)
    return status


def tell(program: str, **counts: int) -> None:
    """Says how many tests passed, failed and were skipped so far, where a suite is recorded; nothing else."""
    if folder := os.environ.get(COUNTS):
        path = Path(folder) / f"{program}-{os.getpid()}.json"
        path.with_suffix(".new").write_text(json.dumps(counts))
        path.with_suffix(".new").replace(path)


class Counter:
    """A plugin of pytest that tells how many tests passed, after each."""

    def __init__(self) -> None:
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        known = self._outcomes.get(report.nodeid)
        if report.failed or (known is None and (report.skipped or report.when == "call")):
            self._outcomes[report.nodeid] = report.outcome
        found = list(self._outcomes.values())
        tell("pytest", **{outcome: found.count(outcome) for outcome in _OUTCOMES})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._outcomes[report.nodeid] = "failed"


def _status(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """How a command ended: its exit status, and what is to be noted of it.

    It ends with the suite: what a terminal or `kill` tells the one, the other is told, too.
    """
    told: list[int] = []
    processes: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: object) -> None:
        told.append(number)
        # A terminal tells both itself.
        if number != signal.SIGINT or not sys.stdin.isatty():
            for process in processes:
                process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        processes.append(subprocess.Popen(command, cwd=ROOT, env=environment))
        for number in told:
            processes[0].send_signal(number)
        status = processes[0].wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if told or status < 0:
        number = told[0] if told else -status
        return 128 + number, f"{INTERRUPTED} by {signal.Signals(number).name}"
    return status, "" if status in (0, 1) else f"ended with status {status}"


def _counted(folder: Path) -> dict[str, int]:
    """Sums of what all programs told; empty where none did."""
    told = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return {outcome: sum(each.get(outcome, 0) for each in told) for outcome in _OUTCOMES} if told else {}


def _commit(ledger: Path) -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # The ledger itself is changed by every run.
        changed = git("status", "--porcelain", "--", ".", f":(exclude,top){LEDGER.relative_to(ROOT)}")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN


@contextmanager
def _locked(ledger: Path) -> Generator[None]:
    with ledger.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(ledger: Path, new: Run, old: Run | None) -> None:
    """The ledger has the new line, in the place of the old one where that is still there."""
    with _locked(ledger):
        lines = ledger.read_text(encoding="utf-8").splitlines()
        if old and str(old) in lines:
            lines[lines.index(str(old))] = str(new)
        else:
            lines.append(str(new))
        ledger.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table(runs: Sequence[Run]) -> str:
    rows = [[field.name for field in fields(Run)], *(list(astuple(run)) for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites")
    commands = parser.add_subparsers(dest="action", required=True)
    recorded = commands.add_parser("run", help="run a suite and add a line to the ledger")
    recorded.add_argument("name")
    recorded.add_argument("command", nargs="+")
    commands.add_parser("list", help="print the last run of each suite: what never ran first, then the oldest")
    options = parser.parse_args(arguments)
    if options.action == "run":
        return run(options.name, options.command)
    names = suites((ROOT / "Makefile").read_text(encoding="utf-8"))
    print(_table(last_runs(parse(LEDGER.read_text(encoding="utf-8")), names)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
