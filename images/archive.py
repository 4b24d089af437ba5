"""Images travel to a cluster in one archive that holds each layer once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images import cache, catalog
from images.engine import Engine
from images.shell import CommandError, run, say


def load(engine: Engine, names: Sequence[str], *, pristine: bool = False) -> None:
    """Load every image of `names` into the target cluster, except those that it has."""
    present = on_every_node(_localcluster("images", capture=True))
    references = {name: catalog.reference(name, pristine=pristine) for name in names}
    lacking = [name for name in names if references[name] not in present]
    if not lacking:
        return
    say(f"    {len(lacking)} images: {', '.join(lacking)}")
    archive = cache.directory("contexts") / f"images-{os.getpid()}.tar"
    try:
        write(engine, [references[name] for name in lacking], archive)
        say("    the nodes import the archive")
        _localcluster("load", str(archive))
    finally:
        archive.unlink(missing_ok=True)


def on_every_node(listing: str) -> set[str]:
    """Return the images that every node has, from lines of node, image and digest."""
    nodes: dict[str, set[str]] = {}
    for line in listing.splitlines():
        node, image, *_ = line.split()
        nodes.setdefault(node, set()).add(image)
    return set.intersection(*nodes.values()) if nodes else set()


def write(engine: Engine, references: Sequence[str], archive: Path) -> None:
    """Write an OCI layout with the images to `archive`, uncompressed: they stay on this machine."""
    layout = Path(tempfile.mkdtemp(prefix="layout-", dir=cache.directory("contexts")))
    try:
        for number, reference in enumerate(references, 1):
            say(f"    {number} of {len(references)} into the archive: {reference.rpartition('/')[2]}")
            *options, source = engine.source(reference)
            run(
                [
                    "skopeo",
                    *options,
                    "copy",
                    "--dest-oci-accept-uncompressed-layers",
                    source,
                    f"oci:{layout}:{reference}",
                ]
            )
        index = layout / "index.json"
        entries = json.loads(index.read_bytes())["manifests"]
        for entry in entries:
            # containerd takes the image's whole name from its own annotation.
            entry["annotations"]["io.containerd.image.name"] = entry["annotations"]["org.opencontainers.image.ref.name"]
        index.write_text(json.dumps({"schemaVersion": 2, "manifests": entries}), encoding="utf-8")
        with tarfile.open(archive, "w") as tar:
            for path in sorted(path for path in layout.rglob("*") if path.is_file()):
                tar.add(path, str(path.relative_to(layout)))
                # Gone before the kernel wrote most of it to the disk.
                path.unlink()
    finally:
        shutil.rmtree(layout)


def _localcluster(*arguments: str, capture: bool = False) -> str:
    command = [sys.executable, "-m", "tools.localcluster", *arguments]
    result = subprocess.run(
        command, stdout=subprocess.PIPE if capture else None, text=True, cwd=catalog.ROOT, check=False
    )
    if result.returncode:
        raise CommandError(f"python -m tools.localcluster {' '.join(arguments)}: exit {result.returncode}")
    return result.stdout or ""
