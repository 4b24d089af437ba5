"""The table of the benchmark, from figures that are given."""

from __future__ import annotations

import pytest

from tools.bench import __main__ as bench
from tools.bench.process import Writes
from tools.bench.runs import Rest, Rollout


def rollout(seconds: float) -> Rollout:
    return Rollout(seconds=seconds, cpu=1.0, writes=Writes(requests=120, created=100, renewals=0), peak=90.0)


REST = Rest(writes=0, restart=0, cpu=0.15, renewals=20, start_cpu=5, memory=80, peak=95)


@pytest.mark.parametrize(("seconds", "unit", "missed"), [(4.0, 0.5, []), (4.0, 0.2, ["apply", "steady state"])])
def test_goals_in_seconds_follow_the_speed_of_the_machine(seconds: float, unit: float, missed: list[str]) -> None:
    rows = bench.table([rollout(seconds)] * 3, REST, rollout(20.0), unit)
    names = [row.name for row in rows if not row.met]
    assert [any(name.startswith(word) for name in names) for word in missed] == [True] * len(missed)
    assert len(names) == len(missed)


def test_the_median_of_runs_counts() -> None:
    rows = {row.name: row for row in bench.table([rollout(1), rollout(2), rollout(9)], REST, rollout(20.0), 0.5)}
    assert rows["apply of the minimal control plane to Ready"].measured == 2
    assert rows["API writes per object created"].measured == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("row", "wait", "is_judged"),
    [
        (bench.Row("time", 6, "s", 5), 1.0, True),
        (bench.Row("time", 6, "s", 5), 2.0, False),
        (bench.Row("time", 4, "s", 5), 2.0, True),
        (bench.Row("memory", 6, "MiB", 5), 2.0, True),
    ],
)
def test_only_a_time_is_not_judged_on_a_busy_machine(row: bench.Row, wait: float, is_judged: bool) -> None:
    assert bench._judged(row, wait).is_judged is is_judged  # pyright: ignore[reportPrivateUsage]
