"""Expectations of the end-to-end tests by Tempest: whatever is not expected is found, and so is what never happens."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.e2e.on_tempest.expectations import EXCLUDED, SETS, SKIPPED
from tests.e2e.on_tempest.names import FILE, of_pattern, versions
from tests.e2e.outcomes import Expectation, Expectations, Outcome, differences

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
    assert Expectations().surprises(Outcome.of(LOG)) == [
        "failed: tempest.api.image.test_b.Test.test_it",
        "excluded: tempest.scenario.test_e.Test.test_it",
        "skipped: setUpClass (tempest.api.volume.test_c.Test): Cinder support is required: not there",
        "skipped: tempest.api.image.test_d.Test.test_it: ",
    ]
    assert Expectations([BY_SSH], [NO_VOLUMES]).surprises(Outcome.of(LOG)) == [
        "failed: tempest.api.image.test_b.Test.test_it",
        "skipped: tempest.api.image.test_d.Test.test_it: ",
    ]


def test_a_reason_is_known_only_as_a_whole() -> None:
    part = Expectation("Cinder support", "there is no Cinder")
    assert "skipped: setUpClass" in " ".join(Expectations([BY_SSH], [part]).surprises(Outcome.of(LOG)))


def test_an_expectation_nothing_meets_is_an_error() -> None:
    stale = Expectation("never", "long gone")
    outcomes = [Outcome.of(LOG), Outcome(passed=["x"])]
    assert Expectations([BY_SSH], [NO_VOLUMES]).unused(outcomes) == []
    lists = Expectations([BY_SSH, stale], [NO_VOLUMES, stale], [stale])
    assert lists.unused(outcomes) == ["never: long gone"] * 3


@pytest.mark.parametrize("expected", [*EXCLUDED, *SKIPPED], ids=lambda each: each.pattern)
def test_every_expectation_has_a_reason(expected: Expectation) -> None:
    re.compile(expected.pattern)
    assert len(expected.reason.split()) > 2


@pytest.mark.parametrize("pattern", SETS.values(), ids=SETS)
def test_a_set_is_one_expression(pattern: str) -> None:
    re.compile(pattern)
    # Tempest takes words of a selection for several expressions.
    assert len(pattern.split()) == 1


def test_names_of_tests_are_those_of_the_image() -> None:
    """After a change of requirements.lock, write them anew (tests/e2e/on_tempest/names.py)."""
    assert FILE.read_text(encoding="utf-8").splitlines()[0] == versions()
    for pattern in SETS.values():
        assert of_pattern(pattern)


@pytest.mark.parametrize("expected", EXCLUDED, ids=lambda expected: expected.pattern[:60])
def test_an_excluded_test_exists(expected: Expectation) -> None:
    assert of_pattern(expected.pattern)


def test_a_run_accounts_for_each_test_of_its_set() -> None:
    names = ["a.One.test_x", "a.One.test_y", "a.Two.test_x", "a.Two.test_y", "a.Three.test_x"]
    outcome = Outcome(["a.One.test_x"], [], {"a.One.test_y": "no", "setUpClass (a.Two)": "no"}, ["a.Three.test_x"])
    assert differences(outcome, names) == []
    assert differences(replace(outcome, skipped={"a.One.test_y": "no"}), names) == [
        "did not run: a.Two.test_x",
        "did not run: a.Two.test_y",
    ]
    assert differences(outcome, names[:-1]) == ["not listed: a.Three.test_x"]


def test_an_excluded_test_that_passes_is_stale() -> None:
    excluded = [Expectation("One", "broken"), Expectation("Two", "late", is_by_chance=True)]
    outcome = Outcome(["a.One.test_x", "a.Two.test_x", "a.Three.test_x"], ["a.One.test_y"])
    for lists in (Expectations(excluded=excluded), Expectations(failing=excluded)):
        assert lists.outdated(outcome) == ["a.One.test_x"]


def test_a_failure_is_expected_by_name_alone() -> None:
    lists = Expectations(failing=[Expectation(r"test_b\.", "no such thing here"), Expectation("c", "at times", True)])
    outcome = Outcome(failed=["a.test_b.T.test_it", "a.test_d.T.test_it"])
    assert lists.surprises(outcome) == ["failed: a.test_d.T.test_it"]
    assert lists.unused([outcome]) == []
    assert [*lists.listing(outcome)] == [
        "failed a.test_b.T.test_it: no such thing here",
        "failed a.test_d.T.test_it: no reason is known",
    ]


def test_a_class_that_fails_at_once_accounts_for_its_tests() -> None:
    outcome = Outcome(["a.One.test_x"], ["setUpClass (a.Two)"])
    assert differences(outcome, ["a.One.test_x", "a.Two.test_x", "a.Two.test_y"]) == []
    assert differences(outcome, ["a.One.test_x", "a.One.test_y"]) == ["did not run: a.One.test_y"]
