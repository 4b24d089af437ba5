"""Allowances of tests that measure time, and machines that are too slow to judge by them.

A test measures its clients for a calm while before it changes anything. A machine that lets them wait already then
cannot tell what a change costs: the test fails as not judged, which the ledger counts apart from passed, failed and
skipped. No calm while excuses a figure that is far beyond all that it showed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

NOT_JUDGED = "not judged"
"""Property of a test's report, and the word of the summary."""


class NotJudgedError(Exception):
    """The machine is too slow to tell whether the figures are right."""


@dataclass(frozen=True)
class Allowance:
    """Largest figure with which a test passes, and why it is this one."""

    most: float
    reason: str
    calm_share: float = 0.5
    """Part of `most` that a machine may use up while nothing is changed; with more it is too slow to judge."""
    slow_factor: float = 3.0
    """A slow machine explains a figure of so many times the calm one, and no larger one."""

    def judge(self, figures: Mapping[str, float], calm: Mapping[str, float]) -> None:
        """Compare figures with the allowance; `calm` are those of the same clients before the change.

        Raises AssertionError for a figure that is too large, NotJudgedError if the machine may be the cause.
        """
        assert figures, "nothing was measured"
        assert figures.keys() <= calm.keys(), f"not measured before: {sorted(figures.keys() - calm.keys())}"
        over = {name: figure for name, figure in figures.items() if figure > self.most}
        slowest = max(calm.values())
        is_slow = slowest > self.most * self.calm_share
        if is_slow and over and max(over.values()) <= slowest * self.slow_factor:
            raise NotJudgedError(
                f"up to {slowest:g} before anything was changed, so {over} says nothing of at most {self.most:g}"
            )
        assert not over, f"at most {self.most:g} ({self.reason}); before the change up to {slowest:g}"


def mark(report: pytest.TestReport, call: pytest.CallInfo[object]) -> None:
    """Say in the report of a test that the machine was too slow to judge, if it was."""
    if call.excinfo is not None and call.excinfo.errisinstance(NotJudgedError):
        report.user_properties.append((NOT_JUDGED, str(call.excinfo.value)))


def is_unjudged(report: pytest.TestReport) -> bool:
    """Return True if the machine was too slow to judge the test."""
    return any(name == NOT_JUDGED for name, _ in report.user_properties)
