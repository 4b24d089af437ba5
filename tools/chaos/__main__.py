"""`python -m tools.chaos run|report`: what `make chaos` does."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.chaos")

import argparse
import sys
from collections.abc import Sequence

from keystoneauth1.exceptions import ClientException
from openstack.exceptions import SDKException
from rich.console import Console
from rich.markup import escape

from tests.suites import tell
from tools.localcluster.kubernetes import KubeError, module
from tools.localcluster.target import target

from . import report
from .run import REPORT, Run, deployed, standing
from .scenario import Result
from .scenarios import SCENARIOS
from .services import OPTIONAL


def main() -> int:
    arguments, console = _arguments(), Console()
    try:
        if arguments.command == "report":
            if not REPORT.exists():
                raise KubeError(f"{REPORT}: there are no figures yet; `python -m tools.chaos run` writes them")
            report.update(REPORT)
            return 0
        if (chosen := target()).kind != "embedded":
            reason = f"nodes are powered off and lost here, which only the embedded cluster can bear, and {chosen.why}"
            raise KubeError(f"{reason}; unset KUBECONFIG, or take kind off the PATH")
        site = standing() if arguments.standing else deployed(console, OPTIONAL if arguments.services else ())
        results = Run(site, console).all(arguments.only or sorted(SCENARIOS), _count)
    except (KubeError, SDKException, ClientException) as error:
        console.print(f"[red]error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
        return 1
    if not arguments.keep and not arguments.standing:
        module("tools.localcluster", "down")
    failed = [result.number for result in results if not result.passed]
    console.print(f"{len(results) - len(failed)} of {len(results)} scenarios passed", highlight=False)
    return 1 if failed else 0


def _count(results: Sequence[Result]) -> None:
    passed = sum(result.passed for result in results)
    tell("chaos", passed=passed, failed=len(results) - passed)


def _numbers(text: str) -> list[int]:
    try:
        chosen = [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected numbers, as in 3,7") from None
    if unknown := [number for number in chosen if number not in SCENARIOS]:
        raise argparse.ArgumentTypeError(f"there is no scenario {unknown}; choose from {sorted(SCENARIOS)}")
    return chosen


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="deploy the cloud, then let scenario after scenario happen to it")
    run.add_argument("--only", type=_numbers, metavar="N[,N…]", help="these scenarios, in this order")
    run.add_argument("--standing", action="store_true", help="on the cloud that runs, which is kept")
    run.add_argument(
        "--services",
        action="store_true",
        help=f"with two pods of each service that is off by default: {', '.join(OPTIONAL)}",
    )
    run.add_argument("--keep", action="store_true", help="leave the cloud running at the end")
    commands.add_parser("report", help="write the figures of build/chaos.json into docs/evidence/reliability.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
