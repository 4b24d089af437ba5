"""Search schedules for faults of the operator, or replay one.

`python -m tests.schedules SEED` prints the schedule of a seed and all that happens in it, `python -m tests.schedules
FIRST LAST` carries out all of these, and `python -m tests.schedules planted` looks for the planted faults.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time

from tests.schedules import simulation
from tests.schedules.planted import PLANTED
from tests.schedules.schedule import schedule_of

_COLLECTED = 25
"""Schedules after which garbage is collected."""
MOST_SEEDS = 6_000
"""Seeds among which each planted fault has to be found."""


def replay(seed: int) -> bool:
    """Print everything of one schedule, and return True if it shows a fault."""
    simulation.SHOWN_LOGS.append(seed)
    outcome = simulation.carry_out(schedule_of(seed))
    lines = [f"{time:9.3f} {text}" for time, text in outcome.trace]
    print("\n".join([*lines, str(outcome.schedule), *outcome.problems]))
    print(f"{outcome.events} events, {outcome.writes} writes")
    return bool(outcome.problems)


def search(first: int, last: int) -> bool:
    """Carry out schedules, and return True if one shows a fault."""
    failed = 0
    for seed in range(first, last + 1):
        _collect_rarely(seed)
        if problems := simulation.carry_out(schedule_of(seed)).problems:
            failed += 1
            print(f"seed {seed}: {problems[0][:1000]}; replay: python -m tests.schedules {seed}")
    print(f"{last + 1 - first} schedules, {failed} with a fault, {time.process_time():.1f} s of CPU")
    return failed > 0


def _collect_rarely(number: int) -> None:
    """Look for garbage after each few schedules, not within them."""
    if number % _COLLECTED == 0:
        gc.collect()
        gc.freeze()
        gc.disable()


def find_planted() -> bool:
    """Print after how many schedules each planted fault was found; return True if one was not."""
    hidden = False
    for plant, needed in PLANTED.items():
        schedules = [each for seed in range(MOST_SEEDS) if {*needed.split()} <= {*(each := schedule_of(seed)).faults}]
        for count, schedule in enumerate(schedules, 1):
            _collect_rarely(count)
            if problems := simulation.carry_out(schedule, plant).problems:
                print(f"{plant.__name__}: seed {schedule.seed}, schedule {count} of its kind: {problems[0][:120]}")
                break
        else:
            hidden = True
            print(f"{plant.__name__}: not found in {len(schedules)} schedules")
    print(f"{time.process_time():.1f} s of CPU")
    return hidden


def main(arguments: list[str]) -> bool:
    """Do what the arguments say; return True if there is a fault. Exit with the usage for what is no number."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules")
    parser.add_argument(
        "seeds", nargs="+", metavar="SEED", help="one to replay, or the first and the last; or: planted"
    )
    seeds = parser.parse_args(arguments).seeds
    if seeds == ["planted"]:
        return find_planted()
    if len(seeds) > 2 or not all(seed.isdecimal() for seed in seeds):
        parser.error("name a seed, or the first and the last seed, or `planted`")
    numbers = [int(seed) for seed in seeds]
    return replay(*numbers) if len(numbers) == 1 else search(*numbers)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of a schedule.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.schedules", *sys.argv[1:]])
    sys.exit(main(sys.argv[1:]))
