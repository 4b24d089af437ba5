"""Images travel to a cluster in one archive that holds each layer once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from images import cache, catalog
from images.engine import Engine
from images.shell import CommandError, say


def load(engine: Engine, names: Sequence[str]) -> None:
    """The target cluster holds every image of `names`; only what it lacks is brought there."""
    present = set(_localcluster("images", capture=True).split())
    lacking = [name for name in names if catalog.reference(name) not in present]
    if not lacking:
        return
    say(f"loading {', '.join(lacking)}")
    archive = cache.directory("contexts") / f"images-{os.getpid()}.tar"
    try:
        write(engine, [catalog.reference(name) for name in lacking], archive)
        _localcluster("load", str(archive))
    finally:
        archive.unlink(missing_ok=True)


def write(engine: Engine, references: Sequence[str], archive: Path) -> None:
    """`archive` is an OCI layout with the images, uncompressed: they travel no further than this machine."""
    layout = cache.directory("layout")
    for reference in references:
        if reference not in {_name(entry) for entry in _index(layout)["manifests"]}:
            engine.push(reference, layout)
    entries = [entry for entry in _index(layout)["manifests"] if _name(entry) in references]
    for entry in entries:
        # containerd takes the image's whole name from its own annotation.
        entry["annotations"]["io.containerd.image.name"] = _name(entry)
    index = json.dumps({"schemaVersion": 2, "manifests": entries}).encode()
    staged = cache.directory("contexts") / f"index-{os.getpid()}.json"
    staged.write_bytes(index)
    with tarfile.open(archive, "w") as tar:
        tar.add(staged, "index.json")
        tar.add(layout / "oci-layout", "oci-layout")
        for digest in sorted(set(_blobs(layout, entries))):
            tar.add(_blob(layout, digest), f"blobs/sha256/{digest.removeprefix('sha256:')}")
    staged.unlink()


def _index(layout: Path) -> dict[str, Any]:
    path = layout / "index.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"manifests": []}


def _name(entry: dict[str, Any]) -> str:
    return entry["annotations"]["org.opencontainers.image.ref.name"]


def _blobs(layout: Path, entries: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Digests of the manifests, configurations and layers of the images."""
    for entry in entries:
        manifest = json.loads(_blob(layout, entry["digest"]).read_bytes())
        yield entry["digest"]
        yield manifest["config"]["digest"]
        for layer in manifest["layers"]:
            yield layer["digest"]


def _blob(layout: Path, digest: str) -> Path:
    return layout / "blobs" / "sha256" / digest.removeprefix("sha256:")


def _localcluster(*arguments: str, capture: bool = False) -> str:
    command = [sys.executable, "-m", "localcluster", *arguments]
    done = subprocess.run(
        command, stdout=subprocess.PIPE if capture else None, text=True, cwd=catalog.ROOT, check=False
    )
    if done.returncode:
        raise CommandError(f"python -m localcluster {' '.join(arguments)}: exit {done.returncode}")
    return done.stdout or ""
