"""Two builds of an image in folders of their own, which share nothing, compared by their digests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from images import catalog
from images.shell import CommandError, run, say


class Entry(NamedTuple):
    """A file of an image."""

    mode: int
    owner: tuple[int, int]
    content: bytes | str


def reproduce(names: Sequence[str], folder: Path) -> bool:
    """Build these images in two folders below `folder`, print the digests of each image with its parents, and return
    True if they are the same. What is in the folders already is not built again. Raises CommandError.
    """
    stores = [folder / "one", folder / "two"]
    for store in stores:
        _build(names, store)
    digests = [_digests(store) for store in stores]
    same = True
    for name in _with_parents(names):
        reference = catalog.reference(name)
        pair = [each.get(reference, "missing") for each in digests]
        is_same = pair[0] == pair[1]
        same = same and is_same
        print(f"{name} {pair[0]}" if is_same else f"{name} {' '.join(pair)} DIFFERS")
        if not is_same:
            for line in differences(_layer(stores[0], reference), _layer(stores[1], reference)):
                print(f"  {line}")
    return same


def _build(names: Sequence[str], store: Path) -> None:
    say(f"building {', '.join(names)} in {store}")
    store.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "OPENSTACK_OPERATOR_CACHE": str(store), "OPENSTACK_OPERATOR_ENGINE": "buildah"}
    command = [sys.executable, "-m", "images", "build", *names]
    if subprocess.run(command, cwd=catalog.ROOT, env=environment, stdout=sys.stderr, check=False).returncode:
        raise CommandError(f"{' '.join(names)} could not be built in {store}; see above")


def _with_parents(names: Iterable[str]) -> list[str]:
    """Return the images and all that they stand on, parents first."""
    needed: set[str] = set()
    for start in names:
        name = start
        while name != catalog.DEBIAN:
            needed.add(name)
            name = catalog.parent(name)
    return [name for name in (catalog.DEBIAN, *catalog.names()) if name in {catalog.DEBIAN, *needed}]


def _digests(store: Path) -> dict[str, str]:
    images = store / "store"
    where = [f"--root={images / 'root'}", f"--runroot={images / 'run'}", "--storage-driver=overlay"]
    lines = run(["buildah", *where, "images", "--format", "{{.Name}}:{{.Tag}} {{.Digest}}"]).splitlines()
    return dict(line.split() for line in lines)


def _layer(store: Path, reference: str) -> Path:
    """Return the folder with the uppermost layer of an image."""
    root = store / "store" / "root"
    images = json.loads((root / "overlay-images" / "images.json").read_bytes())
    layer = next(each["layer"] for each in images if reference in each.get("names", ()))
    return root / "overlay" / layer / "diff"


def differences(one: Path, two: Path, most: int = 20) -> Iterator[str]:
    """Yield what differs between two folders, and last how many differences are left out."""
    entries = [_entries(folder) for folder in (one, two)]
    lines: list[str] = []
    for path in sorted({*entries[0], *entries[1]}):
        pair = [each.get(path) for each in entries]
        if pair[0] is None or pair[1] is None:
            lines.append(f"{path}: in one build alone")
        elif pair[0] != pair[1]:
            fields = [
                name for name, values in zip(Entry._fields, zip(*pair, strict=True), strict=True) if len({*values}) > 1
            ]
            lines.append(f"{path}: {', '.join(fields)}")
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {len(lines) - most} more"
    if not lines:
        yield "no file differs: compare times, and the configurations by `skopeo inspect --config`"


def _entries(folder: Path) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for path in folder.rglob("*"):
        stat = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        owner = stat.st_uid, stat.st_gid
        entries[str(path.relative_to(folder))] = Entry(stat.st_mode, owner, content)
    return entries
