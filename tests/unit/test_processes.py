"""Tests in several processes: which runs which, and what comes back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import Deal

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import os, signal, warnings
import pytest

@pytest.fixture(scope="module")
def server():
    yield os.getpid()
    with open(os.environ["ENDED"], "a") as file:
        file.write("ended\\n")

@pytest.mark.parametrize("number", range(4))
def test_passes(server, number):
    assert server == os.getpid()

def test_fails():
    print("something")
    assert [1] == [2]

def test_is_skipped():
    pytest.skip("has a reason")

def test_warns():
    warnings.warn("it is late")

def test_dies():
    if os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)

def test_leaves_garbage():
    if os.environ.get("GARBAGE"):
        class Broken:
            def __del__(self):
                raise ValueError("left behind")
        circle = Broken()
        circle.itself = circle
"""

Run = Callable[..., str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs two files of such tests by two processes; returns what pytest prints, with its status at the end."""
    folder = tmp_path / "tests"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"test_{name}.py").write_text(PROGRAM)

    def run(*options: str, **environment: str) -> str:
        command = [sys.executable, "-m", "pytest", "-p", "tests.processes", "--processes", "2", "-c", os.devnull]
        plain = ["-p", "no:cacheprovider", "-rs", f"--rootdir={folder}", *options, str(folder)]
        variables = {
            **os.environ,
            "ENDED": str(tmp_path / "ended"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            **environment,
        }
        done = subprocess.run([*command, *plain], cwd=ROOT, env=variables, check=False, capture_output=True, text=True)
        return f"{done.stdout}{done.stderr}status {done.returncode}"

    return run


def test_all_that_is_reported_comes_back(run: Run, tmp_path: Path) -> None:
    said = run()
    assert "2 failed, 14 passed, 2 skipped, 2 warnings" in said
    assert said.endswith("status 1")
    assert "has a reason" in said
    assert "UserWarning: it is late" in said
    assert said.count("Captured stdout call") == 2
    assert "At index 0 diff: 1 != 2" in said
    # A fixture of a module is made again where another process takes the rest of it.
    assert set((tmp_path / "ended").read_text().split()) == {"ended"}


def test_after_the_first_failure_no_more_tests_are_dealt(run: Run) -> None:
    """A process runs the one that it has already."""
    said = run("-x")
    assert re.search(r"stopping after [12] failures", said)
    assert "it is late" not in said


def test_tests_of_a_process_that_dies_fail_and_so_do_those_that_nobody_ran(run: Run) -> None:
    said = run("-k", "dies or passes", DIES="1")
    assert "the process that had this test ended with -9" in said
    assert "a process that ran tests ended with -9" in said or "some tests did not run" in said
    assert re.search(r"\b[2-4] failed\b", said)
    assert not said.endswith("status 0")


def test_what_the_last_test_left_is_found(run: Run) -> None:
    said = run("-k", "garbage", "-W", "error", GARBAGE="1")
    assert "left behind" in said
    assert not said.endswith("status 0")


def test_a_process_keeps_to_its_file() -> None:
    deal = Deal(["a", "a", "b", "b", "c"])
    assert [deal.next_test(process) for process in (1, 2, 1, 2, 1, 2, 1)] == [0, 2, 1, 3, 4, None, None]


def test_a_process_without_tests_takes_half_of_the_longest_rest() -> None:
    deal = Deal(["a"] * 6 + ["b"])
    assert deal.next_test(1) == 0
    assert deal.next_test(2) == 6
    assert [deal.next_test(2) for _ in range(3)] == [3, 4, 5]
    assert [deal.next_test(1) for _ in range(2)] == [1, 2]
    assert deal.next_test(1) is deal.next_test(2) is None


def test_each_test_is_dealt_once() -> None:
    files = [name for name in "abcdefg" for _ in range(ord(name) - ord("a") + 1)]
    deal, order = Deal(files), [1, 2, 3, 3, 1] * len(files)
    dealt = [number for process in order if (number := deal.next_test(process)) is not None]
    assert sorted(dealt) == list(range(len(files)))
