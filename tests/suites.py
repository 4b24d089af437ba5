"""The ledger of the longer suites: `python -m tests.suites run NAME -- COMMAND` adds a line, `list` prints the last
runs of each suite, `overdue` those whose last green run is long ago, and `mark` marks commits that are not there.

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
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import leftovers
from tests.judging import is_unjudged

ROOT = Path(__file__).parent.parent
LEDGER = ROOT / "docs" / "evidence" / "suites.md"
COUNTS = "SUITE_COUNTS"
UNKNOWN = "-"
"""Of a figure that nobody wrote down."""
RUNNING, INTERRUPTED, ENDED, NEVER = "no end was recorded", "interrupted", "ended with", "never"
WHOLE, PART = "whole", "part"
ABSENT = "?"
"""Of a commit that is not in the repository: it was rebased before it landed."""
OVERDUE = 300
"""Commits after which a suite should have been green again."""
_OUTCOMES = ("passed", "failed", "skipped", "unjudged")


@dataclass(frozen=True)
class Run:
    """One run of a suite, as the ledger has it."""

    suite: str
    date: str = NEVER
    """Of its beginning, to the minute, in UTC."""
    commit: str = UNKNOWN
    """Commit that was tested; with a `+` if files had been changed since, with a `?` if no branch has it any more."""
    minutes: str = UNKNOWN
    passed: str = UNKNOWN
    failed: str = UNKNOWN
    skipped: str = UNKNOWN
    unjudged: str = UNKNOWN
    """Tests for which the machine was too slow (tests/judging.py); unknown before 29 November."""
    extent: str = UNKNOWN
    """`whole` if the Makefile's command ran, `part` if another one or with chosen tests."""
    note: str = ""

    @property
    def is_green(self) -> bool:
        """True for a whole run that ended, and in which nothing failed and all was judged."""
        has_ended = self.note != RUNNING and not self.note.startswith((INTERRUPTED, ENDED))
        is_judged = self.failed == "0" and self.unjudged in ("0", UNKNOWN)
        return self.extent == WHOLE and has_ended and is_judged and self.passed not in ("0", UNKNOWN)

    def __str__(self) -> str:
        return f"| {' | '.join(cell.replace('|', '/') for cell in astuple(self))} |"


def parse(text: str) -> list[Run]:
    """The runs of a ledger, in its order."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    width = len(fields(Run))
    return [Run(*row) for row in rows if len(row) == width and re.match(r"\d{4}-", row[1])]


@dataclass(frozen=True)
class State:
    """The runs of one suite that count."""

    suite: str
    last: Run | None = None
    last_whole: Run | None = None
    last_green: Run | None = None
    """The last whole run in which nothing failed."""


def states(runs: Sequence[Run], suites: Sequence[str]) -> list[State]:
    """Return the state of each suite: first those that never were green, then that whose green run is the oldest."""
    by_date = sorted((run for run in runs if run.date != NEVER), key=lambda run: run.date)
    found = [
        State(
            name,
            _last(run for run in by_date if run.suite == name),
            _last(run for run in by_date if run.suite == name and run.extent == WHOLE),
            _last(run for run in by_date if run.suite == name and run.is_green),
        )
        for name in sorted({*suites, *(run.suite for run in runs)})
    ]
    return sorted(found, key=lambda state: (state.last_green.date if state.last_green else "", state.suite))


def _last(runs: Iterable[Run]) -> Run | None:
    return next(iter([*runs][-1:]), None)


def suites(makefile: str) -> list[str]:
    """The suites that a Makefile records."""
    return sorted(re.findall(r"^([\w-]+):.*\n(?:\t.*\n)*?\t(?:\w+=\S+ )?\$\((?:RECORD|E2E)\)", makefile, re.MULTILINE))


def extent_of(name: str, command: Sequence[str], makefile: str) -> str:
    """Return `whole` if a command is that of the Makefile for a suite, and nothing chooses among its tests."""
    recipe = re.search(rf"^{re.escape(name)}:.*\n(?:\t.*\n)*?\t.*\$\((?:RECORD|E2E)\)(.*)$", makefile, re.MULTILINE)
    # A script of several lines has no word to compare on its first one.
    line = recipe[1].partition("'\\")[0] if recipe else ""
    words = [word for word in shlex.split(line) if "$" not in word]
    # Wildcards are expanded by then: their folders stay.
    plain = [word for word in words if "*" not in word]
    is_chosen = "PYTEST_ADDOPTS" in os.environ or any(word in ("-k", "--only", "--lf", "--sw") for word in command)
    is_of_makefile = recipe is not None and all(word in command for word in plain)
    return WHOLE if is_of_makefile and (not is_chosen or "--only" in words) else PART


def run(name: str, command: Sequence[str], ledger: Path = LEDGER) -> int:
    """The exit status of a suite, whose line is in the ledger then."""
    leftovers.begin()
    extent = extent_of(name, command, (ROOT / "Makefile").read_text(encoding="utf-8"))
    began = Run(name, f"{datetime.now(UTC):%Y-%m-%d %H:%M}", _commit(ledger), extent=extent, note=RUNNING)
    started = time.monotonic()
    _write(ledger, began, None)
    with tempfile.TemporaryDirectory() as folder:
        status, note = _status(command, {**os.environ, COUNTS: folder})
        counts = _counted(Path(folder))
    if left := leftovers.left():
        print("\nprocesses that the suite left behind:", *left, sep="\n    ")
        counts["failed"] = counts.get("failed", 0) + 1
        status = status or 1
    minutes = f"{(time.monotonic() - started) / 60:.0f}"
    figures = {outcome: str(counts.get(outcome, 0)) if counts else UNKNOWN for outcome in _OUTCOMES}
    # With a note it did not come to its end, so some of its tests may not have begun.
    ended = replace(began, minutes=minutes, extent=PART if note else extent, note=note, **figures)
    _write(ledger, ended, began)
    if ledger == LEDGER:
        from tests import evidence_page  # noqa: PLC0415  (which imports this module)

        evidence_page.write()
    return status


def tell(program: str, **counts: int) -> None:
    """Say how many tests passed, failed, were skipped and were not judged so far, if a suite is recorded."""
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
            self._outcomes[report.nodeid] = "unjudged" if is_unjudged(report) else report.outcome
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
    return status, "" if status in (0, 1) else f"{ENDED} status {status}"


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


def marked(runs: Iterable[Run], is_there: Callable[[str], bool]) -> Iterator[Run]:
    """Yield runs with a mark at each commit that is not there, and without one at each that is."""
    for run in runs:
        commit = run.commit.rstrip(ABSENT)
        is_absent = commit != UNKNOWN and not is_there(commit.rstrip("+"))
        yield replace(run, commit=f"{commit}{ABSENT if is_absent else ''}")


def is_in_history(commit: str) -> bool:
    """Return True if a commit is part of the history of what is checked out."""
    return _git("merge-base", "--is-ancestor", commit, "HEAD") is not None


def _mark(ledger: Path = LEDGER) -> None:
    runs = parse(ledger.read_text(encoding="utf-8"))
    for old, new in zip(runs, marked(runs, is_in_history), strict=True):
        if old != new:
            _write(ledger, new, old)


def _table(found: Sequence[State]) -> str:
    rows = [["suite", "last run", "last whole run", "last green run", "commits since", "lines of src since", "note"]]
    for state in found:
        rows.append(
            [
                state.suite,
                *(run.date if run else NEVER for run in (state.last, state.last_whole, state.last_green)),
                *_since(state.last_green),
                state.last.note if state.last else "",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def _since(run: Run | None) -> tuple[str, str]:
    """Return how many commits, and changed lines of src, came after a run; lines are unknown for a commit that was
    never part of this history.
    """
    if run is None:
        return UNKNOWN, UNKNOWN
    commit = run.commit.rstrip(f"+{ABSENT}")
    if _git("merge-base", "--is-ancestor", commit, "HEAD") is None:
        return _git("rev-list", "--count", f"--since={run.date}", "HEAD") or UNKNOWN, UNKNOWN
    changed = re.findall(
        r"(\d+) (?:insertion|deletion)", _git("diff", "--shortstat", commit, "HEAD", "--", "src") or ""
    )
    return _git("rev-list", "--count", f"{commit}..HEAD") or UNKNOWN, str(sum(map(int, changed)))


def _git(*words: str) -> str | None:
    """Return what git prints; None if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _overdue(found: Sequence[State]) -> list[str]:
    """Return a line for each suite that never was green as a whole, or whose green run is too many commits old."""
    lines: list[str] = []
    for state in found:
        commits, _ = _since(state.last_green)
        if state.last_green is None:
            lines.append(f"warning: {state.suite} was never green as a whole")
        elif commits != UNKNOWN and int(commits) > OVERDUE:
            lines.append(f"warning: {state.suite} was green {commits} commits ago, on {state.last_green.date}")
    return lines


def main(arguments: Sequence[str]) -> int:
    """Run or list suites. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.suites")
    commands = parser.add_subparsers(dest="action", required=True)
    recorded = commands.add_parser("run", help="run a suite and add a line to the ledger")
    recorded.add_argument("name")
    recorded.add_argument("command", nargs="+")
    commands.add_parser("list", help="print the last, the last whole and the last green run of each suite")
    commands.add_parser("mark", help="mark commits of the ledger that are not in the repository")
    commands.add_parser("overdue", help=f"print the suites whose last green run is more than {OVERDUE} commits ago")
    options = parser.parse_args(arguments)
    if options.action == "run":
        return run(options.name, options.command)
    if options.action == "mark":
        _mark()
        return 0
    names = suites((ROOT / "Makefile").read_text(encoding="utf-8"))
    found = states(parse(LEDGER.read_text(encoding="utf-8")), names)
    print("\n".join(_overdue(found)) if options.action == "overdue" else _table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
