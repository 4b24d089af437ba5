"""python -m images: build, list, release, load, guest."""

from __future__ import annotations

import argparse
import json
import sys

from images import archive, cache, catalog
from images.build import build
from images.engine import engine
from images.shell import CommandError, say


def main(arguments: list[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    options = _options().parse_args(arguments)
    try:
        match options.command:
            case "build":
                _build(options.names)
            case "load":
                _load(options.names)
            case "list":
                print(json.dumps({name: catalog.reference(name) for name in catalog.deployed()}, indent=2))
            case "release":
                text = (catalog.ROOT / "releases" / f"{options.name}.yaml").read_text(encoding="utf-8")
                print(catalog.resolved(text), end="")
            case _:
                _guest()
    except CommandError as error:
        say(f"images: {error}")
        return 1
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m images", description="Container images, built once per content.")
    commands = parser.add_subparsers(dest="command", required=True)
    known = ", ".join(catalog.names())
    for name, text in {"build": "build what is missing", "load": "bring the cluster what it lacks"}.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("names", nargs="*", metavar="NAME", help=f"default: all that pods run. One of: {known}")
    commands.add_parser("list", help="image → reference, as JSON")
    release = commands.add_parser("release", help="a release file with the tags filled in")
    release.add_argument("name", nargs="?", default="2025.1")
    commands.add_parser("guest", help="build the guest image, print its path")
    return parser


def _chosen(names: list[str]) -> list[str]:
    unknown = sorted(set(names) - set(catalog.names()))
    if unknown:
        raise CommandError(f"there is no image {', '.join(unknown)}; choose from {', '.join(catalog.names())}")
    return names or list(catalog.deployed())


def _build(names: list[str]) -> None:
    chosen = _chosen(names)
    build(engine(), chosen)
    for name in chosen:
        print(catalog.reference(name))


def _load(names: list[str]) -> None:
    chosen = _chosen(names)
    builder = engine()
    build(builder, chosen)
    archive.load(builder, chosen)


def _guest() -> None:
    """The guest image is kept under the tag of the image that makes it."""
    path = cache.directory("guest") / f"{catalog.tag('guest')}.qcow2"
    if not path.exists():
        builder = engine()
        build(builder, ["guest"])
        unfinished = path.with_suffix(".new")
        builder.copy_out(catalog.reference("guest"), "/guest.qcow2", unfinished)
        unfinished.rename(path)
    print(path)


if __name__ == "__main__":
    sys.exit(main())
