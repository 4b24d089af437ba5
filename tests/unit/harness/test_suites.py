"""The ledger of the longer suites: what a run leaves in it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import suites
from tests.suites import INTERRUPTED, PART, RUNNING, UNKNOWN, WHOLE, Run
from tests.unit.polling import until

HEAD = """# Suites

| suite | date | commit | minutes | passed | failed | skipped | not judged | extent | note |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
TELLS = "from tests.suites import tell; tell('a', passed=2, failed=1); tell('b', passed=3, skipped=4)"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "suites.md"
    path.write_text(HEAD, encoding="utf-8")
    return path


def lines(ledger: Path) -> list[Run]:
    return suites.parse(ledger.read_text(encoding="utf-8"))


def test_a_run_is_recorded_with_what_all_its_programs_counted(ledger: Path) -> None:
    assert suites.run("e2e-x", [sys.executable, "-c", f"{TELLS}; raise SystemExit(1)"], ledger) == 1
    [found] = lines(ledger)
    assert (found.suite, found.passed, found.failed, found.skipped, found.note) == ("e2e-x", "5", "1", "4", "")
    assert found.minutes.isdigit()
    assert ledger.read_text(encoding="utf-8").startswith(HEAD)


def test_a_run_that_counts_nothing_says_how_it_ended(ledger: Path) -> None:
    assert suites.run("bench", ["sh", "-c", "exit 7"], ledger) == 7
    [found] = lines(ledger)
    assert (found.passed, found.failed, found.note) == (UNKNOWN, UNKNOWN, "ended with status 7")


def test_a_line_is_there_while_a_suite_runs(ledger: Path) -> None:
    assert suites.run("e2e", ["grep", "-q", RUNNING, str(ledger)], ledger) == 0
    [found] = lines(ledger)
    assert found.note == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_an_interrupted_run_is_recorded_as_such(ledger: Path, tmp_path: Path, number: signal.Signals) -> None:
    begun = tmp_path / "begun"
    command = ["sh", "-c", f"touch {begun}; exec sleep 600"]
    code = f"from pathlib import Path; from tests import suites; suites.run('e', {command}, Path({str(ledger)!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=suites.ROOT, start_new_session=True)
    until("it to begin", begun.exists)
    process.send_signal(number)
    process.wait()
    if number is signal.SIGKILL:
        os.killpg(process.pid, signal.SIGKILL)
    [found] = lines(ledger)
    assert found.note == (f"{INTERRUPTED} by SIGTERM" if number is signal.SIGTERM else RUNNING)


def test_a_suite_that_was_killed_is_told_from_one_that_failed(ledger: Path) -> None:
    assert suites.run("e2e", ["sh", "-c", "kill -KILL $$"], ledger) == 128 + signal.SIGKILL
    assert [run.note for run in lines(ledger)] == [f"{INTERRUPTED} by SIGKILL"]


@pytest.mark.parametrize(("status", "extent"), [(0, WHOLE), (1, WHOLE), (2, PART)])
def test_a_suite_that_pytest_interrupted_counts_as_a_part(
    ledger: Path, monkeypatch: pytest.MonkeyPatch, status: int, extent: str
) -> None:
    def of_makefile(*_: object) -> str:
        return WHOLE

    monkeypatch.setattr(suites, "extent_of", of_makefile)
    suites.run("e2e", ["sh", "-c", f"exit {status}"], ledger)
    assert [run.extent for run in lines(ledger)] == [extent]


@pytest.mark.seconds
def test_pytest_counts_its_tests(ledger: Path, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "@pytest.fixture\ndef torn():\n    yield\n    raise OSError\n"
        "def test_torn(torn): pass\n"
        "from tests.judging import Allowance\n"
        "def test_slow(): Allowance(1, 'so').judge({'a': 2}, {'a': 1})\n"
        "@pytest.mark.skip(reason='x')\ndef test_left(): pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]
    command += ["-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path)]
    assert suites.run("e2e", command, ledger) == 1
    [found] = lines(ledger)
    assert (found.passed, found.failed, found.skipped, found.unjudged) == ("1", "2", "1", "1")


def whole(suite: str, day: int, failed: str = "0", note: str = "") -> Run:
    return Run(suite, f"2026-11-{day} 10:00", passed="5", failed=failed, extent=WHOLE, note=note)


def test_suites_that_never_were_green_come_first_then_the_oldest() -> None:
    runs = [whole("a", 20), whole("b", 19), whole("a", 18), whole("d", 21, failed="1")]
    found = suites.states(runs, ["a", "b", "c"])
    assert [(state.suite, state.last_green and state.last_green.date) for state in found] == [
        ("c", None),
        ("d", None),
        ("b", "2026-11-19 10:00"),
        ("a", "2026-11-20 10:00"),
    ]


def test_a_run_in_which_a_test_was_not_judged_is_not_green() -> None:
    assert not replace(whole("a", 20), unjudged="1").is_green
    assert replace(whole("a", 20), unjudged="0").is_green


def test_a_part_of_a_suite_is_no_whole_and_no_green_run() -> None:
    part = replace(whole("a", 22), extent=PART)
    [state] = suites.states([whole("a", 18), whole("a", 20, failed="1"), part], ["a"])
    assert (state.last, state.last_whole, state.last_green) == (part, whole("a", 20, failed="1"), whole("a", 18))


@pytest.mark.parametrize("note", [RUNNING, f"{INTERRUPTED} by SIGTERM", "ended with status 7"])
def test_a_run_that_was_not_ended_is_not_green(note: str) -> None:
    assert not whole("a", 20, note=note).is_green


MAKEFILE = """
e2e: venv ## all
\t@echo
\t$(E2E) --ignore-glob='tests/e2e/on_*' tests/e2e

few: venv
\t$(RECORD) $(PY) -m tools.chaos run --services --only 1,2

long: venv
\tLONG=1 $(RECORD) $(PY) -m pytest -m 'search or hypothesis' tests/unit

script: venv
\t$(RECORD) sh -c '\\
\t\ttrue'
"""
COMMAND = ["python", "-m", "pytest", "-v", "--ignore-glob=tests/e2e/on_*"]


@pytest.mark.parametrize(
    ("suite", "command", "extent"),
    [
        ("e2e", [*COMMAND, "tests/e2e"], WHOLE),
        ("e2e", [*COMMAND, "tests/e2e/test_cloud.py"], PART),
        ("e2e", [*COMMAND, "tests/e2e", "-k", "login"], PART),
        ("few", ["python", "-m", "tools.chaos", "run", "--services", "--only", "1,2"], WHOLE),
        ("few", ["python", "-m", "tools.chaos", "run", "--services", "--only", "1"], PART),
        ("long", ["python", "-m", "pytest", "-m", "search or hypothesis", "tests/unit"], WHOLE),
        ("script", ["sh", "-c", "true"], WHOLE),
        ("unknown", ["true"], PART),
    ],
)
def test_a_run_is_whole_if_the_makefile_has_its_command(
    monkeypatch: pytest.MonkeyPatch, suite: str, command: list[str], extent: str
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    assert suites.extent_of(suite, command, MAKEFILE) == extent


def test_a_run_is_a_part_if_the_environment_chooses_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k login")
    assert suites.extent_of("e2e", [*COMMAND, "tests/e2e"], MAKEFILE) == PART


def test_all_longer_suites_of_the_makefile_are_recorded(root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    longer = {
        line.partition(":")[0]
        for line in makefile.splitlines()
        if line.startswith(
            (
                "e2e",
                "chaos:",
                "chaos-",
                "bench:",
                "mutants:",
                "test-programs:",
                "test-crash-points:",
                "test-long:",
                "judged:",
                "consistency:",
                "consistency-",
            )
        )
    }
    assert set(suites.suites(makefile)) == longer
    assert len(longer) > 8


def test_the_ledger_is_one(root: Path) -> None:
    text = suites.LEDGER.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert len(rows) - 1 == len(suites.parse(text)), "each line has all columns and a date"
