"""Tests of upstream's suites: what came of them, and what was expected, each exception with its reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

_CLASS = re.compile(r"setUpClass \((.+)\)")
"""Name of all tests of a class that testtools skips, or that fail, at once."""


@dataclass(frozen=True)
class Expectation:
    """Tests that do not run or do not pass, and why that is as it should be."""

    pattern: str
    """Regular expression: what names of tests have in common, or the whole of a reason that a suite gives."""
    reason: str
    is_by_chance: bool = False
    """True for a test that passes at times; any other one that passes is to be taken off the list."""

    def __str__(self) -> str:
        return f"{self.pattern}: {self.reason}"


@dataclass
class Outcome:
    """What came of the tests of a suite, or of a set of it."""

    passed: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """The suite's reason by the test."""
    excluded: list[str] = field(default_factory=list[str])

    @classmethod
    def of(cls, log: str) -> Outcome:
        """Read from the log of a run."""
        outcome = cls()
        for line in log.splitlines():
            word, _, rest = line.partition(" ")
            name, _, reason = rest.strip().partition(": ")
            match word:
                case "passed" | "failed" | "excluded":
                    getattr(outcome, word).append(name)
                case "skipped":
                    outcome.skipped[name] = reason
                case _:
                    pass
        return outcome


@dataclass(frozen=True)
class Expectations:
    """All exceptions of a suite. Every other test has to pass."""

    excluded: Sequence[Expectation] = ()
    """Tests that are not tried, by their names."""
    skipped: Sequence[Expectation] = ()
    """Tests that the suite skips, by the reasons it gives."""
    failing: Sequence[Expectation] = ()
    """Tests that are tried and fail, by their names."""

    def surprises(self, outcome: Outcome) -> list[str]:
        """Return what is not as expected: tests that failed or did not run for no reason that is known here."""
        failed = [f"failed: {name}" for name in outcome.failed if not _by_name(self.failing, name)]
        excluded = [f"excluded: {name}" for name in outcome.excluded if not _by_name(self.excluded, name)]
        skipped = [
            f"skipped: {name}: {reason}"
            for name, reason in outcome.skipped.items()
            if not _by_reason(self.skipped, reason)
        ]
        return failed + excluded + skipped

    def unused(self, outcomes: Iterable[Outcome]) -> list[str]:
        """Return expectations that no test met, but for those that depend on chance."""
        runs = list(outcomes)
        met = {_by_name(self.excluded, name) for run in runs for name in run.excluded}
        met |= {_by_reason(self.skipped, reason) for run in runs for reason in run.skipped.values()}
        met |= {_by_name(self.failing, name) for run in runs for name in run.failed}
        met |= {each for each in self.failing if each.is_by_chance}
        return [str(each) for each in (*self.excluded, *self.skipped, *self.failing) if each not in met]

    def outdated(self, outcome: Outcome) -> list[str]:
        """Return listed tests that passed, and should be off the list."""
        listed = (*self.excluded, *self.failing)
        return [name for name in outcome.passed if (each := _by_name(listed, name)) and not each.is_by_chance]

    def listing(self, outcome: Outcome) -> Iterator[str]:
        """Yield a line for each test that did not run or pass, with the expected reason, or the one of the suite."""
        for word, names, listed in (
            ("excluded", outcome.excluded, self.excluded),
            ("failed", outcome.failed, self.failing),
        ):
            for name in names:
                expected = _by_name(listed, name)
                yield f"{word} {name}: {expected.reason if expected else 'no reason is known'}"
        for name, reason in outcome.skipped.items():
            expected = _by_reason(self.skipped, reason)
            yield f"skipped {name}: {reason}" + (f" ({expected.reason})" if expected else "")


def differences(outcome: Outcome, names: Sequence[str]) -> list[str]:
    """Return tests that a run does not account for, and those that are in no list."""
    failed = {name for name in outcome.failed if _CLASS.fullmatch(name)}
    classes = {match[1] for name in (*outcome.skipped, *failed) if (match := _CLASS.fullmatch(name))}
    skipped = [name for name in outcome.skipped if not _CLASS.fullmatch(name)]
    ran = Counter([*outcome.passed, *outcome.failed, *outcome.excluded, *skipped]) - Counter(failed)
    missing = [name for name in (Counter(names) - ran).elements() if name.rpartition(".")[0] not in classes]
    unlisted = (ran - Counter(names)).elements()
    return [*(f"did not run: {name}" for name in missing), *(f"not listed: {name}" for name in unlisted)]


def _by_name(expected: Sequence[Expectation], name: str) -> Expectation | None:
    return next((each for each in expected if re.search(each.pattern, name)), None)


def _by_reason(expected: Sequence[Expectation], reason: str) -> Expectation | None:
    return next((each for each in expected if re.fullmatch(each.pattern, reason)), None)
