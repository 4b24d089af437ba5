"""The operator in thousands of schedules: it comes to the same end state, and does no harm on its way."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.searches import IS_LONG

SEEDS, BLOCKS = (100_000, 100) if IS_LONG else (300, 1)
_FAR = 7_200
"""Seconds after which a process is taken for hung: each schedule is bounded by events and by virtual time."""


def carry_out(*arguments: object) -> str:
    """Run the search in a process in which sets have one order, and return what it found."""
    command = [sys.executable, "-m", "tests.schedules", *map(str, arguments)]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_FAR, check=False)
    print(done.stdout)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.search
@pytest.mark.parametrize("block", range(BLOCKS))
def test_schedules_end_in_the_expected_state(block: int) -> None:
    size = SEEDS // BLOCKS
    carry_out(block * size, (block + 1) * size - 1)


@pytest.mark.search
def test_planted_faults_are_found() -> None:
    carry_out("planted")


@pytest.mark.search
def test_replay_repeats_the_schedule() -> None:
    assert carry_out(3) == carry_out(3)
