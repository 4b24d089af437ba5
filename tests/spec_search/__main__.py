"""Search sequences of specs for faults of the operator, or replay one.

`python -m tests.spec_search SEED` prints what happens with a seed, and makes a failure as small as it still fails;
`python -m tests.spec_search FIRST LAST` carries out all of these, and `python -m tests.spec_search planted` looks for
the planted faults. `python -m tests.spec_search cloud` does it in a real cloud (`--help` has the options).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from openstack_operator.plan import Service
from openstack_operator.registry import SERVICES
from tests.spec_search import cloud
from tests.spec_search.planted import PLANTED
from tests.spec_search.search import SMALL, Failure, Outcome, carry_out
from tests.spec_search.shrink import shrink

MOST_SEEDS = 60
"""Seeds among which each planted fault has to be found."""


def replay(seed: int, services: Sequence[Service]) -> bool:
    """Print everything of one seed, and return True if it shows a fault."""
    outcome = carry_out(seed, services=services)
    print(f"{outcome.base.service.resource.handle}, seed {seed}", *outcome.trace, sep="\n")
    for failure in outcome.failures:
        path, fields = shrink(outcome.base, failure.path)
        print(f"It fails with {len(path)} specs, of which the last ones differ in: {'; '.join(map(str, fields))}")
    return bool(outcome.failures)


def search(first: int, last: int, services: Sequence[Service]) -> bool:
    """Carry out seeds, and return True if one shows a fault."""
    total, transitions, failed = Counter[str](), 0, 0
    for seed in range(first, last + 1):
        outcome = carry_out(seed, services=services)
        total, transitions = total + outcome.counts, transitions + outcome.transitions
        for failure in outcome.failures:
            failed += 1
            print(_said(outcome, failure), flush=True)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(total.items()))
    print(f"{last + 1 - first} seeds, {transitions} transitions, {failed} with a fault; {counts}")
    print(f"{time.process_time():.1f} s of CPU")
    return failed > 0


def _said(outcome: Outcome, failure: Failure) -> str:
    changes = "; ".join(map(str, failure.mutations)) or "the first spec"
    lines = [f"seed {outcome.seed}, {outcome.base.service.resource.handle}: {changes}"]
    lines += [f"    {problem[:400]}" for problem in failure.problems[:3]]
    return "\n".join([*lines, f"    replay: python -m tests.spec_search {outcome.seed}"])


def find_planted() -> bool:
    """Print after how many transitions each planted fault was found; return True if one was not."""
    hidden = False
    for plant in PLANTED:
        transitions = 0
        for seed in range(MOST_SEEDS):
            outcome = carry_out(seed, plant, services=SMALL)
            transitions += outcome.transitions
            if outcome.failures:
                problem = outcome.failures[0].problems[0][:120]
                print(f"{plant.__name__}: seed {seed}, transition {transitions}: {problem}")
                break
        else:
            hidden = True
            print(f"{plant.__name__}: not found in {transitions} transitions")
    print(f"{time.process_time():.1f} s of CPU")
    return hidden


def main(arguments: list[str]) -> bool:
    """Do what the arguments say; return True if there is a fault. Exit with the usage for what is no number."""
    if arguments[:1] == ["cloud"]:
        return cloud.main(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m tests.spec_search")
    parser.add_argument(
        "seeds", nargs="+", metavar="SEED", help="one to replay, or the first and the last; or: planted; or: cloud"
    )
    parser.add_argument("--small", action="store_true", help="only kinds with short plans; the seeds are others then")
    options = parser.parse_args(arguments)
    seeds, services = options.seeds, SMALL if options.small else SERVICES
    if seeds == ["planted"]:
        return find_planted()
    if len(seeds) > 2 or not all(seed.isdecimal() for seed in seeds):
        parser.error("name a seed, or the first and the last seed, or `planted`, or `cloud`")
    numbers = [int(seed) for seed in seeds]
    return replay(numbers[0], services) if len(numbers) == 1 else search(numbers[0], numbers[1], services)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets is part of a sequence.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.spec_search", *sys.argv[1:]])
    sys.exit(main(sys.argv[1:]))
