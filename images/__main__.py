"""python -m images: build, load, push, list, release, reproduce, guest, amphora."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("images")

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from images import archive, cache, catalog, registry
from images.build import build
from images.engine import engine
from images.reproduce import reproduce
from images.shell import CommandError, say


def main(arguments: list[str] | None = None) -> int:
    """Run one command, and return the exit status."""
    options = _options().parse_args(arguments)
    try:
        match options.command:
            case "build":
                _build(_chosen(options.names, options.release), pristine=options.pristine)
            case "load":
                _load(_chosen(options.names, options.release), pristine=options.pristine)
            case "push":
                _push(options.registry, _chosen(options.names, options.release), pristine=options.pristine)
            case "list":
                references = _references(options.registry, _chosen([], options.release), pristine=options.pristine)
                print(json.dumps(references, indent=2))
            case "release":
                text = (catalog.ROOT / "releases" / f"{options.name}.yaml").read_text(encoding="utf-8")
                names = catalog.named_images(text)
                references = _references(options.registry, names, pristine=options.pristine)
                print(catalog.resolved(text, references), end="")
            case "reproduce":
                return 0 if reproduce(_chosen(options.names, options.release), options.folder) else 1
            case name:
                _disk(name)
    except CommandError as error:
        say(f"images: {error}")
        return 1
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m images", description="Container images, built once per content.")
    commands = parser.add_subparsers(dest="command", required=True)
    names = ", ".join(catalog.names())
    some = {
        "build": "build what is missing",
        "load": "bring the cluster what it lacks",
        "push": "bring a registry what it lacks",
    }
    for name, text in some.items():
        command = commands.add_parser(name, help=text)
        _add_pristine(command)
        _add_release(command)
        if name == "push":
            command.add_argument("registry", type=registry.prefix, help="such as registry.example.org/team")
        command.add_argument("names", nargs="*", metavar="NAME", help=f"default: all that pods run. One of: {names}")
    listing = commands.add_parser("list", help="image → reference, as JSON")
    release = commands.add_parser("release", help="a release file with the tags filled in")
    release.add_argument("name", nargs="?", default=catalog.RELEASE)
    _add_release(listing)
    for command in (listing, release):
        command.add_argument(
            "--registry", type=registry.prefix, default=catalog.PREFIX, help="where nodes pull from; default: nowhere"
        )
        _add_pristine(command)
    twice = commands.add_parser("reproduce", help="build images twice, and compare the digests; needs root and buildah")
    twice.add_argument("names", nargs="+", metavar="NAME", help=f"one of {names}")
    twice.add_argument(
        "--folder", type=Path, required=True, help="an empty one, for two caches; gigabytes that you delete afterwards"
    )
    _add_release(twice)
    commands.add_parser("guest", help="build the guest image, print its path")
    commands.add_parser("amphora", help="build the image of Octavia's provider amphora, print its path")
    return parser


def _add_release(command: argparse.ArgumentParser) -> None:
    choices = sorted(path.stem for path in (catalog.ROOT / "releases").glob("*.yaml"))
    text = f"of OpenStack, one of {', '.join(choices)}; default: {catalog.RELEASE}"
    command.add_argument("--release", choices=choices, default=catalog.RELEASE, help=text, metavar="RELEASE")


def _add_pristine(command: argparse.ArgumentParser) -> None:
    text = (
        "without the patches of images/patches; PRISTINE=1 does the same for all commands, as in `PRISTINE=1 make e2e`"
    )
    command.add_argument("--pristine", action="store_true", default=catalog.is_pristine(), help=text)


def _chosen(names: list[str], release: str) -> list[str]:
    """Return the images of these names; without, all that pods of the release run. Of an image that each release has,
    the name alone means that of this one.
    """
    if not names:
        return catalog.of_release(release)
    all_names = catalog.names()
    chosen = [catalog.name_in(name, release) for name in names]
    if unknown := sorted(set(chosen) - set(all_names)):
        raise CommandError(f"there is no image {', '.join(unknown)}; choose from {', '.join(all_names)}")
    return chosen


def _build(chosen: list[str], *, pristine: bool) -> None:
    build(engine(), chosen, pristine=pristine)
    for name in chosen:
        print(catalog.reference(name, pristine=pristine))


def _load(chosen: list[str], *, pristine: bool) -> None:
    builder = engine()
    build(builder, chosen, pristine=pristine)
    archive.load(builder, chosen, pristine=pristine)


def _push(target: str, chosen: list[str], *, pristine: bool) -> None:
    builder = engine()
    build(builder, chosen, pristine=pristine)
    registry.push(builder, target, chosen, pristine=pristine)


def _references(target: str, names: Iterable[str], *, pristine: bool) -> dict[str, str]:
    """Return what pods run, by image: by digest in a registry, by tag on nodes that images are loaded onto."""
    if target == catalog.PREFIX:
        return {name: catalog.reference(name, pristine=pristine) for name in names}
    pinned = registry.pinned(target, names, pristine=pristine)
    if absent := [name for name, reference in pinned.items() if "@" not in reference]:
        say(f"not in {target}, so named by tag: {', '.join(absent)}; push with `python -m images push {target}`")
    return pinned


def _disk(name: str) -> None:
    """Print the path of a server's disk image, built if missing. Its name has the tag of the image that makes it."""
    path = cache.directory(name) / f"{catalog.tag(name)}.qcow2"
    if not path.exists():
        builder = engine()
        build(builder, [name])
        unfinished = path.with_suffix(".new")
        builder.copy_out(catalog.reference(name), f"/{name}.qcow2", unfinished)
        unfinished.rename(path)
    print(path)


if __name__ == "__main__":
    sys.exit(main())
