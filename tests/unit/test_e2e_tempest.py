"""Expectations of the end-to-end tests by Tempest: whatever is not expected is found, and so is what never happens."""

from __future__ import annotations

import re

import pytest

from tests.e2e.on_tempest.expectations import EXCLUDED, SETS, SKIPPED, Expectation, Outcome, surprises, unused

LOG = """
{"service_available": {"nova": true}}
passed   tempest.api.image.test_a.Test.test_it
failed   tempest.api.image.test_b.Test.test_it
Traceback (most recent call last):
  failed to do so
skipped  setUpClass (tempest.api.volume.test_c.Test): Cinder support is required: not there
skipped  tempest.api.image.test_d.Test.test_it
excluded tempest.scenario.test_e.Test.test_it
"""
BY_SSH = Expectation(r"\.scenario\.", "there is no SSH")
NO_VOLUMES = Expectation(r"Cinder support is required.*", "there is no Cinder")


def test_a_log_is_read() -> None:
    outcome = Outcome.of(LOG)
    assert outcome.passed == ["tempest.api.image.test_a.Test.test_it"]
    assert outcome.failed == ["tempest.api.image.test_b.Test.test_it"]
    assert outcome.skipped == {
        "setUpClass (tempest.api.volume.test_c.Test)": "Cinder support is required: not there",
        "tempest.api.image.test_d.Test.test_it": "",
    }
    assert outcome.excluded == ["tempest.scenario.test_e.Test.test_it"]


def test_all_is_a_surprise_that_has_no_reason() -> None:
    assert surprises(Outcome.of(LOG), [], []) == [
        "failed: tempest.api.image.test_b.Test.test_it",
        "excluded: tempest.scenario.test_e.Test.test_it",
        "skipped: setUpClass (tempest.api.volume.test_c.Test): Cinder support is required: not there",
        "skipped: tempest.api.image.test_d.Test.test_it: ",
    ]
    assert surprises(Outcome.of(LOG), [BY_SSH], [NO_VOLUMES]) == [
        "failed: tempest.api.image.test_b.Test.test_it",
        "skipped: tempest.api.image.test_d.Test.test_it: ",
    ]


def test_a_reason_is_known_only_as_a_whole() -> None:
    part = Expectation("Cinder support", "there is no Cinder")
    assert "skipped: setUpClass" in " ".join(surprises(Outcome.of(LOG), [BY_SSH], [part]))


def test_an_expectation_nothing_meets_is_an_error() -> None:
    stale = Expectation("never", "long gone")
    outcomes = [Outcome.of(LOG), Outcome(passed=["x"])]
    assert unused(outcomes, [BY_SSH], [NO_VOLUMES]) == []
    assert unused(outcomes, [BY_SSH, stale], [NO_VOLUMES, stale]) == ["never: long gone", "never: long gone"]


@pytest.mark.parametrize("expected", [*EXCLUDED, *SKIPPED], ids=lambda each: each.pattern)
def test_every_expectation_has_a_reason(expected: Expectation) -> None:
    re.compile(expected.pattern)
    assert len(expected.reason.split()) > 2


@pytest.mark.parametrize("pattern", SETS.values(), ids=SETS)
def test_a_set_is_one_expression(pattern: str) -> None:
    re.compile(pattern)
    # Tempest takes words of a selection for several expressions.
    assert len(pattern.split()) == 1
