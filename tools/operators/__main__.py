"""python -m tools.operators: build, install, remove, list."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.operators")

import argparse
import sys

from images.shell import CommandError
from tools.localcluster.build import BuildError
from tools.localcluster.kubernetes import KubeError, existing_cluster

from . import build
from .catalog import BY_NAME, chosen
from .install import install, remove


def main(arguments: list[str] | None = None) -> int:
    """Run one command, and return the exit status."""
    options = _options().parse_args(arguments)
    try:
        operators = chosen(options.names)
        match options.command:
            case "build":
                for operator in operators:
                    print(build.archive(operator))
            case "install":
                install(existing_cluster(), operators)
            case "remove":
                remove(existing_cluster(), operators)
            case _:
                for operator in operators:
                    print(operator.name, operator.module, build.reference(operator))
    except (BuildError, KubeError, CommandError, ValueError) as error:
        print(f"operators: {error}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.operators",
        description="Operators of others, for `provider:`, and those that install this one.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    help_text = f"default: those for `provider:`. One of: {', '.join(BY_NAME)}"
    for name, text in {
        "build": "build what is missing into the cache; print the archives of images",
        "install": "bring them into the cluster that runs",
        "remove": "take them out of it; their kinds, and what was made of them, stay",
        "list": "names, modules and images",
    }.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("names", nargs="*", metavar="NAME", help=help_text)
    return parser


if __name__ == "__main__":
    sys.exit(main())
