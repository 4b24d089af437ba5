"""`python -m tools.consistency run|check`: what `make consistency` does."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.consistency")

import argparse
import sys
from pathlib import Path

from tests.suites import tell
from tools.localcluster.kubernetes import KubeError, module
from tools.localcluster.target import target

from . import checker
from .faults import FAULTS
from .mariadb import ISOLATION
from .run import FOLDER, Run, Setup, judge
from .site import deployed, standing


def main() -> int:
    """Run one command, and return the exit status."""
    arguments = _arguments()
    try:
        if arguments.command == "check":
            print("\n".join(checker.explain(*judge(arguments.history))))
            return 0
        return _run(arguments)
    except (KubeError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    if (chosen := target()).kind != "embedded":
        raise KubeError(f"nodes are powered off here, which only the embedded cluster can bear, and {chosen.why}")
    site = standing(_say) if arguments.standing else deployed(_say)
    setup = Setup(
        through=arguments.through,
        isolation=arguments.isolation.replace("-", " ").upper(),
        faults=arguments.faults,
        minutes=arguments.minutes,
        clients=arguments.clients,
        has_unsafe_flush=arguments.unsafe_flush,
        seed=arguments.seed,
    )
    figures = Run(site, setup, _say).execute()
    if not arguments.keep and not arguments.standing:
        module("tools.localcluster", "down")
    problem = figures.problem(must_find=arguments.must_find)
    tell(f"consistency-{setup.label}", passed=int(not problem), failed=int(bool(problem)))
    _say(problem or f"as expected; figures are in {FOLDER / setup.label}.json")
    return int(bool(problem))


def _say(text: str) -> None:
    print(text, flush=True)


def _faults(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    if unknown := sorted(set(names) - set(FAULTS)):
        raise argparse.ArgumentTypeError(f"there is no fault {', '.join(unknown)}; choose from {', '.join(FAULTS)}")
    return names


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.consistency")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="let clients and faults work on a MariaDB of three, and judge what they saw")
    run.add_argument("--minutes", type=float, default=60.0)
    run.add_argument("--through", choices=("door", "members"), default="door", help="the Service, or each member")
    run.add_argument("--faults", type=_faults, default=tuple(FAULTS), help=",".join(FAULTS))
    run.add_argument(
        "--isolation", choices=[each.lower().replace(" ", "-") for each in ISOLATION], default="repeatable-read"
    )
    run.add_argument("--clients", type=int, default=10)
    run.add_argument("--seed", type=int, default=0, help="of the transactions and of the choice of victims")
    run.add_argument("--unsafe-flush", action="store_true", help="acknowledge commits before they are on the disk")
    run.add_argument("--must-find", action="store_true", help="fail if no anomaly is found")
    run.add_argument("--standing", action="store_true", help="on the embedded cluster that runs, which is kept")
    run.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    check = commands.add_parser("check", help="judge the history of an earlier run")
    check.add_argument("history", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
