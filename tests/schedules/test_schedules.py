"""The operator in thousands of schedules: it comes to the same end state, and does no harm on its way."""

from __future__ import annotations

from functools import partial

import pytest

from tests import search_processes
from tests.searches import IS_LONG

SEEDS, BLOCKS = (100_000, 100) if IS_LONG else (300, 1)
carry_out = partial(search_processes.carry_out, "tests.schedules")


@pytest.mark.search
@pytest.mark.parametrize("block", range(BLOCKS))
def test_schedules_end_in_the_expected_state(block: int) -> None:
    size = SEEDS // BLOCKS
    carry_out(block * size, (block + 1) * size - 1)


@pytest.mark.search
def test_planted_faults_are_found() -> None:
    carry_out("planted")


@pytest.mark.search
@pytest.mark.parametrize("seed", [3, 5, 130])
def test_replay_repeats_the_schedule(seed: int) -> None:
    assert carry_out(seed) == carry_out(seed)
