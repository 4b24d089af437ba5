"""Allowances of tests that measure time: what fails, and what a slow machine leaves open."""

from __future__ import annotations

import pytest

from tests.judging import Allowance, NotJudgedError

GAP = Allowance(2.0, "one of two pods serves")


def test_a_figure_within_its_allowance_passes_on_any_machine() -> None:
    GAP.judge({"images": 2.0}, {"images": 5.0})


def test_a_larger_figure_fails_on_a_machine_that_was_calm() -> None:
    with pytest.raises(AssertionError, match=r"at most 2 \(one of two pods serves\)"):
        GAP.judge({"images": 2.1}, {"images": 1.0, "token": 0.2})


def test_a_larger_figure_is_not_judged_on_a_slow_machine() -> None:
    with pytest.raises(NotJudgedError, match=r"up to 2\.4 before anything was changed"):
        GAP.judge({"images": 3.0, "token": 0.1}, {"images": 0.3, "token": 2.4})


def test_a_figure_beyond_all_that_was_calm_fails_on_a_slow_machine() -> None:
    """As in an upgrade of 28 November: 14.4 s, and 2.4 s in the minute before."""
    with pytest.raises(AssertionError, match="at most 2"):
        GAP.judge({"images": 14.4}, {"images": 2.4})


@pytest.mark.parametrize(("figures", "calm"), [({}, {"images": 1.0}), ({"images": 1.0}, {})])
def test_a_figure_that_was_not_measured_fails(figures: dict[str, float], calm: dict[str, float]) -> None:
    with pytest.raises(AssertionError, match="measured"):
        GAP.judge(figures, calm)
