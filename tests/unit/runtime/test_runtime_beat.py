"""Beats, in a loop whose time the tests set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from openstack_operator.runtime.process import Beat


class SetLoop(asyncio.SelectorEventLoop):
    """A loop that is at the time it is told."""

    now = 100.25

    def time(self) -> float:
        return self.now

    def turn(self, now: float) -> None:
        """Runs what is due then."""
        self.now = now
        self.run_until_complete(asyncio.sleep(0))


@pytest.fixture
def loop() -> Iterator[SetLoop]:
    loop = SetLoop()
    yield loop
    loop.close()


def beat(loop: SetLoop, call: Callable[[float], None]) -> Beat:
    async def make() -> Beat:
        return Beat(1.0, call)

    return loop.run_until_complete(make())


def test_beats_that_begin_at_different_times_come_together(loop: SetLoop):
    beats: list[str] = []
    beat(loop, lambda _: beats.append("a"))
    loop.turn(100.75)
    beat(loop, lambda _: beats.append("b"))
    loop.turn(100.99)
    assert not beats
    loop.turn(101)
    assert sorted(beats) == ["a", "b"]


def test_a_late_loop_beats_once_and_says_how_late(loop: SetLoop):
    late: list[float] = []
    beat(loop, late.append)
    for now in (101.0, 104.5, 104.75, 105.0):
        loop.turn(now)
    assert late == [0.0, 2.5, 0.0]


def test_a_timer_that_ends_early_beats_once(loop: SetLoop):
    late: list[float] = []
    beat(loop, late.append)
    early = 101 - 1e-10
    for now in (early, early, 101.0, 101.5):
        loop.turn(now)
    assert late == [0.0]


def test_an_ended_beat_calls_no_more(loop: SetLoop):
    late: list[float] = []
    beat(loop, late.append).end()
    loop.turn(103)
    assert not late
