"""Prints measurements next to their goals, writes build/bench.json, and ends with 1 where a goal is missed."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.bench")

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median

from openstack_operator.runtime.logs import configure
from tests.suites import tell

from . import runs
from .calibration import machine_unit, machine_wait
from .stage import ROOT

_MANY = 20
_READY_UNITS = 9
"""Goal of an apply to Ready, in units of the machine: 5 s where a unit is 0.55 s."""
_REST_UNITS = 0.4
"""Goal of the CPU at rest, in percent of a core for each second of a unit: 0.2 % where a unit is 0.5 s."""


_BUSY = 1.5
"""Seconds that may pass for a second of CPU, at most: on a busier machine, time says nothing of the operator."""


@dataclass(frozen=True)
class Row:
    """A figure; one without a goal is printed for the record."""

    name: str
    measured: float
    unit: str
    most: float | None = None
    is_judged: bool = True
    """False for a time that misses its goal on a machine that is too busy to tell."""

    @property
    def met(self) -> bool:
        return self.most is None or self.measured <= self.most

    def __str__(self) -> str:
        goal = "" if self.most is None else f"at most {self.most:.3g}"
        mark = "" if self.most is None else "yes" if self.met else "NO" if self.is_judged else "not judged"
        return f"{self.name:<58} {goal:>14} {self.measured:>10.2f} {self.unit:<9} {mark}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.bench", description="Measures the engine against its goals.")
    parser.add_argument("--repeat", type=int, default=3, help="roll-outs of one cloud, of which the median counts")
    parser.add_argument("--rest", type=float, default=60, help="seconds of doing nothing")
    options = parser.parse_args()
    configure(json=False, debug=False)
    unit, wait = machine_unit(), machine_wait()
    rows = [_judged(row, wait) for row in asyncio.run(_measured(options.repeat, options.rest, unit))]
    print(f"\n{'':<58} {'goal':>14} {'measured':>10} {'':<9} met?")
    print("\n".join(map(str, rows)))
    target = ROOT / "build" / "bench.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps([{**asdict(row), "met": row.met} for row in rows], indent=1) + "\n")
    missed = [row for row in rows if not row.met]
    unjudged = sum(not row.is_judged for row in missed)
    passed = sum(row.most is not None for row in rows) - len(missed)
    tell("bench", passed=passed, failed=len(missed) - unjudged, unjudged=unjudged)
    return 1 if missed else 0


def _judged(row: Row, wait: float) -> Row:
    """Return a row as it counts on a machine on which `wait` seconds pass for a second of CPU."""
    is_time = row.unit == "s" and row.most is not None
    return replace(row, is_judged=row.met or not is_time or wait <= _BUSY)


async def _measured(repeat: int, seconds: float, unit: float) -> list[Row]:
    ones: list[runs.Rollout] = []
    for number in range(1, repeat):
        _say(f"one cloud, run {number} of {repeat}")
        ones.append(await runs.rollout(1))
    _say(f"one cloud, run {repeat} of {repeat}; then nothing for {seconds:g} s")
    last, rest = await runs.rollout_and_rest(seconds)
    ones.append(last)
    _say(f"{_MANY} clouds")
    return table(ones, rest, await runs.rollout(_MANY), unit)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(ones: Sequence[runs.Rollout], rest: runs.Rest, many: runs.Rollout, unit: float) -> list[Row]:
    cpu, writes = median(one.cpu for one in ones), [one.writes for one in ones]
    requests, created = (median(numbers) for numbers in zip(*((w.requests, w.created) for w in writes), strict=True))
    return [
        Row("unit: CPU of this machine for a fixed piece of work", unit, "s"),
        Row(
            "apply of the minimal control plane to Ready", median(one.seconds for one in ones), "s", _READY_UNITS * unit
        ),
        Row("  CPU of the operator", cpu, "s"),
        Row("  objects created, Events among them", created, ""),
        Row("API writes per object created", requests / created, "", 1.3),
        Row("steady state: writes", rest.writes, "", 0),
        Row("steady state: CPU, with lease and probes", rest.cpu, "% of core", _REST_UNITS * unit),
        Row("  renewals of the lease", rest.renewals, "a minute"),
        Row("  writes of a restarted operator", rest.restart, "", 0),
        Row("  CPU of its start, and of what it does once after that", rest.start_cpu, "s"),
        Row("memory: resident, one cloud", rest.memory, "MiB", 160),
        Row("memory: peak, one cloud", max(rest.peak, *(one.peak for one in ones)), "MiB", 160),
        Row(f"memory: peak, {_MANY} clouds", many.peak, "MiB", 160),
        Row(f"CPU of {_MANY} clouds, in CPU of one", many.cpu / cpu, "times", 25),
        Row(f"  apply of {_MANY} control planes to all Ready", many.seconds, "s"),
        Row(f"  CPU of the operator for {_MANY}", many.cpu, "s"),
        Row(f"  API writes per object created, {_MANY} clouds", many.writes.requests / many.writes.created, ""),
    ]


if __name__ == "__main__":
    sys.exit(main())
