"""What is missing may be on its way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from openstack_operator.plan import READY, State, Verdict, failed
from openstack_operator.runtime.grace import Grace
from openstack_operator.runtime.store import Cached, Meta, Request

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
REQUEST = Request("Keystone.openstack.k8s.io", "x", "keystone")
MISSING = failed("spec.database: there is no Secret 'db' in this namespace", "MissingReference")


class Process:
    """An operator that has just begun, so many seconds after the resource was made."""

    def __init__(self, age: float = 0) -> None:
        self.now = age
        self.grace = Grace(30, lambda: self.now, lambda: BEGAN + timedelta(seconds=self.now))

    def judge(self, at: float, verdict: Verdict = MISSING) -> tuple[State, float | None]:
        self.now = at
        held = Cached(Meta("keystone", creation_timestamp="2026-01-01T00:00:00Z"), b"{}")
        found, left = self.grace.judge(REQUEST, held, verdict)
        assert verdict.message in found.message
        return found.state, left


def test_what_is_missing_is_waited_for_before_it_is_a_failure():
    process = Process()
    assert process.judge(0) == (State.WAITING, 30)
    assert process.judge(29) == (State.WAITING, 1)
    assert process.judge(30) == (State.FAILED, None)
    assert process.judge(999) == (State.FAILED, None)


def test_a_restart_does_not_begin_anew():
    assert Process(20).judge(20) == (State.WAITING, 10)
    assert Process(3600).judge(3600) == (State.FAILED, None)


def test_what_goes_later_is_waited_for_as_well():
    process = Process(3600)
    process.grace.complete(REQUEST)
    assert process.judge(4000) == (State.WAITING, 30)
    process.grace.complete(REQUEST)
    assert process.judge(4020) == (State.WAITING, 30), "another one, for all we know"


def test_a_namesake_begins_anew():
    process = Process()
    process.grace.complete(REQUEST)
    process.judge(3600)
    process.grace.forget(REQUEST)
    assert process.judge(3601) == (State.FAILED, None)


@pytest.mark.parametrize("verdict", [READY, failed("no", "InvalidSpec"), Verdict(State.RETRYING, "no answer")])
def test_nothing_else_is_waited_for(verdict: Verdict):
    process = Process()
    assert process.judge(1, verdict) == (verdict.state, None)


def test_what_it_is_called_names_the_time_and_is_the_same_all_along():
    process = Process()
    held = Cached(Meta("keystone", creation_timestamp="2026-01-01T00:00:00Z"), b"{}")
    texts = set[str]()
    for process.now in (1, 2, 29):
        texts.add(process.grace.judge(REQUEST, held, MISSING)[0].message)
    assert texts == {f"{MISSING.message}; this counts as a failure after 30 s"}
