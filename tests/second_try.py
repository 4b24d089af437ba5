"""A second try for tests that failed: `python -m tests.second_try COMMAND` runs a command of pytest.

What failed in it runs once more, alone.

A test that passes alone is flaky: it is printed and written into docs/evidence/flaky.md, and does not make the run red.
A test that fails twice does. Many failures are no accident and are not tried again.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("tests.second_try")

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "docs" / "evidence" / "flaky.md"
MOST = 5
"""Failed tests that get a second try, at most."""
FAILURES = "FAILED_TESTS"
"""Variable with the name of the file into which pytest writes what failed."""
_ALONE = ("-p", "no:randomly", "-p", "no:xdist")
_DISTRIBUTION = ("-n", "--dist")


class Failures:
    """A plug-in of pytest that writes down which tests failed, or had no fixture."""

    def __init__(self) -> None:
        self._ids: list[str] = []
        self._is_whole = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self._ids:
            self._ids.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._is_whole = self._is_whole and not report.failed

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if name := os.environ.get(FAILURES):
            Path(name).write_text(json.dumps(self._ids if self._is_whole else None), encoding="utf-8")


def run(command: Sequence[str], record: Path = RECORD, *, root: Path = ROOT) -> int:
    """Return the exit status: 0 if all tests passed, each at its first try or alone at its second."""
    status, failed = _tests_of(command, root)
    if status != pytest.ExitCode.TESTS_FAILED or not failed or len(failed) > MOST:
        return status
    print(f"\n== {len(failed)} of the tests failed; a second try, alone:", *failed, sep="\n   ", flush=True)
    # By their names: what else the command chose does not matter then.
    again = [*_without_distribution(command), *_ALONE, *failed]
    status, failed_again = _tests_of(again, root)
    flaky = [name for name in failed if name not in (failed_again or ())]
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or failed_again is None:
        return status
    if flaky:
        print("\n== flaky: failed once and passed alone; find the cause and mend it next:", *flaky, sep="\n   ")
        _write(record, flaky, root)
    return status


def _without_distribution(command: Sequence[str]) -> list[str]:
    """Return the command for tests that are named: without workers and their number, and without paths."""
    words: list[str] = []
    takes_next = False
    for word in command:
        if takes_next:
            takes_next = False
        elif word in _DISTRIBUTION:
            takes_next = True
        elif not word.startswith(_DISTRIBUTION) and not word.startswith("tests/"):
            words.append(word)
    return words


def _tests_of(command: Sequence[str], root: Path) -> tuple[int, list[str] | None]:
    """Return the exit status of a command, and the tests that failed; None if that is not known."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "failed.json"
        status = subprocess.run(command, cwd=root, env={**os.environ, FAILURES: str(file)}, check=False).returncode
        return status, json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _write(record: Path, tests: Sequence[str], root: Path) -> None:
    words = ("git", "rev-parse", "--short=10", "HEAD")
    commit = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False).stdout.strip() or "-"
    with record.open("a", encoding="utf-8") as file:
        for test in tests:
            file.write(f"| {datetime.now(UTC):%Y-%m-%d %H:%M} | {commit} | `{test.replace('|', '/')}` | not known |\n")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
