"""`python -m tools.consistency run|check`: what `make consistency` does."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.consistency")

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.suites import tell
from tools.localcluster.kubernetes import KubeError, module
from tools.localcluster.layout import DEFAULT_NAME, Cluster
from tools.localcluster.target import target

from . import mariadb, rabbitmq
from .etcd import Etcd, EtcdSite
from .faults import FAULTS, LASTING, UPGRADE
from .mariadb import ISOLATION, MariaDB, MariaDBSite
from .ovn import OVN, READERS, OVNSite
from .rabbitmq import Queue, RabbitMQSite
from .run import FOLDER, Run, Setup
from .site import Site, embedded, standing
from .valkey import Valkey, ValkeySite
from .work import Lists, Work, judge


@dataclass(frozen=True)
class Store:
    """A server that runs can be about."""

    site: type[Site]
    work: Callable[[Any, argparse.Namespace], Work]
    """Return the work on a site, as the arguments say."""


STORES = {
    "mariadb": Store(
        MariaDBSite,
        lambda site, arguments: Lists(
            MariaDB.of(site, arguments.through, _level(arguments), is_unprotected=arguments.unprotected), arguments.seed
        ),
    ),
    "rabbitmq": Store(
        RabbitMQSite, lambda site, arguments: Queue(site, arguments.through, is_unprotected=arguments.unprotected)
    ),
    "etcd": Store(
        EtcdSite,
        lambda site, arguments: Lists(
            Etcd.of(site, arguments.through, is_unprotected=arguments.unprotected), arguments.seed, READERS
        ),
    ),
    "ovn": Store(OVNSite, lambda site, arguments: Lists(OVN.of(site, arguments.through), arguments.seed, READERS)),
    "valkey": Store(ValkeySite, lambda site, arguments: Lists(Valkey.of(site, arguments.through), arguments.seed)),
}


def main() -> int:
    """Run one command, and return the exit status."""
    arguments = _arguments()
    try:
        if arguments.command == "check":
            is_queue = arguments.store == "rabbitmq"
            path = arguments.history
            print((rabbitmq.judge(path) if is_queue else judge(path, mariadb.HARM)).text, end="")
            return 0
        return _run(arguments)
    except (KubeError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(arguments: argparse.Namespace) -> int:
    if (chosen := target()).kind != "embedded":
        raise KubeError(f"nodes are powered off here, which only the embedded cluster can bear, and {chosen.why}")
    store, machine = STORES[arguments.store], Cluster(arguments.standing or DEFAULT_NAME)
    kubernetes = standing(machine) if arguments.standing else embedded(store.site.images)
    site = store.site(kubernetes, machine)
    site.deploy(_say, site.old_version if UPGRADE in arguments.faults else "")
    setup = Setup(_label(arguments), arguments.faults, arguments.minutes, arguments.clients, seed=arguments.seed)
    figures = Run(site, store.work(site, arguments), setup, _say).execute()
    if not arguments.keep and not arguments.standing:
        module("tools.localcluster", "down")
    problem = figures.problem(must_find=arguments.must_find)
    tell(f"consistency-{setup.label}", passed=int(not problem), failed=int(bool(problem)))
    _say(problem or f"as expected; figures are in {FOLDER / setup.label}.json")
    return int(bool(problem))


def _label(arguments: argparse.Namespace) -> str:
    upgrade = "-upgrade" if UPGRADE in arguments.faults else ""
    level = f"-{arguments.isolation}" if arguments.store == "mariadb" else ""
    return f"{arguments.store}-{arguments.through}{level}{'-unprotected' if arguments.unprotected else ''}{upgrade}"


def _level(arguments: argparse.Namespace) -> str:
    return arguments.isolation.replace("-", " ").upper()


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
    run = commands.add_parser("run", help="let clients and faults work on three members, and judge what they saw")
    run.add_argument("--minutes", type=float, default=60.0)
    run.add_argument("--through", choices=("door", "members"), default="door", help="as clients do, or any member")
    run.add_argument("--faults", type=_faults, default=LASTING, help=",".join(FAULTS))
    run.add_argument(
        "--isolation", choices=[each.lower().replace(" ", "-") for each in ISOLATION], default="repeatable-read"
    )
    run.add_argument("--clients", type=int, default=10)
    run.add_argument("--seed", type=int, default=0, help="of the transactions and of the choice of victims")
    run.add_argument(
        "--unprotected",
        action="store_true",
        help="commits that are not on the disk (mariadb), messages in memory (rabbitmq), reads of one member (etcd)",
    )
    run.add_argument("--must-find", action="store_true", help="fail if no anomaly is found")
    run.add_argument(
        "--standing",
        nargs="?",
        const=DEFAULT_NAME,
        metavar="CLUSTER",
        help="on an embedded cluster that runs with the operator and the images, which is kept",
    )
    run.add_argument("--keep", action="store_true", help="leave the cluster running at the end")
    check = commands.add_parser("check", help="judge the history of an earlier run")
    check.add_argument("history", type=Path)
    for command in (run, check):
        command.add_argument("--store", choices=tuple(STORES), default="mariadb")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
