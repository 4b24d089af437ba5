"""A second try of what failed: one that passes alone is flaky, one that fails twice is red."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import second_try

pytestmark = pytest.mark.seconds

PLUGIN = """
from tests import second_try

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(second_try.Failures())
"""
FLAKY = """
from pathlib import Path

def test_passes_alone():
    mark = Path("tried")
    if not mark.exists():
        mark.touch()
        raise AssertionError
"""
RED = "\ndef test_red():\n    raise AssertionError\n"
GREEN = "\ndef test_green():\n    pass\n"


@pytest.fixture
def trial(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tests of its own."""
    (tmp_path / "conftest.py").write_text(PLUGIN)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    monkeypatch.setenv("PYTHONPATH", str(root))
    return tmp_path


def status(trial: Path, *tests: str) -> int:
    (trial / "test_it.py").write_text("".join(tests))
    # One worker is as far away as two, and takes a second of CPU less to start.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1", "--dist", "worksteal"]
    return second_try.run(command, trial / "flaky.md", root=trial)


def recorded(trial: Path) -> list[str]:
    record = trial / "flaky.md"
    return [line.split("|")[3].strip() for line in record.read_text().splitlines()] if record.exists() else []


def test_a_test_that_passes_alone_is_recorded_and_not_red(trial: Path) -> None:
    assert status(trial, FLAKY, GREEN) == 0
    assert recorded(trial) == ["`test_it.py::test_passes_alone`"]


def test_a_test_that_fails_twice_is_red(trial: Path) -> None:
    assert status(trial, FLAKY, RED, GREEN) == 1
    assert recorded(trial) == ["`test_it.py::test_passes_alone`"]


def test_without_failures_nothing_is_tried_again(trial: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert status(trial, GREEN) == 0
    assert "second try" not in capfd.readouterr().out
    assert recorded(trial) == []


def test_many_failures_are_no_accident(trial: Path) -> None:
    many = [
        FLAKY.replace("alone", str(number)).replace("tried", f"tried-{number}") for number in range(second_try.MOST + 1)
    ]
    assert status(trial, *many) == 1
    assert recorded(trial) == []


def test_a_module_that_cannot_be_read_is_red(trial: Path) -> None:
    assert status(trial, GREEN, "import nowhere\n") != 0
    assert recorded(trial) == []
