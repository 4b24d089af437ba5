"""Which tests of Tempest run, and which of them need not pass, each with its reason; all others have to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

SETS: Mapping[str, str] = {
    "smoke": r"\[.*\bsmoke\b.*\]",
    "identity": r"^tempest\.api\.identity\.",
    "image": r"^tempest\.api\.image\.",
    "network": r"^tempest\.api\.network\.",
}
"""The sets, by what their tests' names have in common."""


@dataclass(frozen=True)
class Expectation:
    """Tests that do not run, and why that is as it should be."""

    pattern: str
    """Regular expression: what names of excluded tests have in common, or the whole of a reason that Tempest gives."""
    reason: str

    def __str__(self) -> str:
        return f"{self.pattern}: {self.reason}"


EXCLUDED: Sequence[Expectation] = (
    Expectation(
        r"tempest\.scenario\.test_network_basic_ops\.TestNetworkBasicOps\.test_network_basic_ops\b",
        "logs into its server by SSH, which the small guest does not have; `make cloud` reaches a server from outside",
    ),
)
"""Tests that are not tried, by their names."""

SKIPPED: Sequence[Expectation] = ()
"""Tests that Tempest skips, by the reasons it gives."""


@dataclass
class Outcome:
    """What came of the tests of a set."""

    passed: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    """Tempest's reason by the test."""
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


def excluding() -> str:
    """One expression for all tests that are not tried."""
    return "|".join(each.pattern for each in EXCLUDED)


def surprises(
    outcome: Outcome, excluded: Sequence[Expectation] = EXCLUDED, skipped: Sequence[Expectation] = SKIPPED
) -> list[str]:
    """What is not as expected: tests that failed, and those that did not run for no reason that is known here."""
    found = [f"failed: {name}" for name in outcome.failed]
    found += [f"excluded: {name}" for name in outcome.excluded if not _by_name(excluded, name)]
    return found + [
        f"skipped: {name}: {reason}" for name, reason in outcome.skipped.items() if not _by_reason(skipped, reason)
    ]


def unused(
    outcomes: Iterable[Outcome], excluded: Sequence[Expectation] = EXCLUDED, skipped: Sequence[Expectation] = SKIPPED
) -> list[str]:
    """Expectations that no test of any set met."""
    known = list(outcomes)
    names = [name for outcome in known for name in outcome.excluded]
    reasons = [reason for outcome in known for reason in outcome.skipped.values()]
    met = {_by_name(excluded, name) for name in names} | {_by_reason(skipped, reason) for reason in reasons}
    return [str(each) for each in (*excluded, *skipped) if each not in met]


def listing(outcome: Outcome) -> Iterator[str]:
    """A line for each test that did not run, with the reason: the one that is expected, or Tempest's own."""
    for name in outcome.excluded:
        expected = _by_name(EXCLUDED, name)
        yield f"excluded {name}: {expected.reason if expected else 'no reason is known'}"
    for name, reason in outcome.skipped.items():
        expected = _by_reason(SKIPPED, reason)
        yield f"skipped {name}: {reason}" + (f" ({expected.reason})" if expected else "")


def _by_name(expected: Sequence[Expectation], name: str) -> Expectation | None:
    return next((each for each in expected if re.search(each.pattern, name)), None)


def _by_reason(expected: Sequence[Expectation], reason: str) -> Expectation | None:
    return next((each for each in expected if re.fullmatch(each.pattern, reason)), None)
