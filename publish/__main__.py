"""python -m publish REGISTRY: a release, in build/release."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("publish")

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from images import catalog, registry
from images.build import build
from images.engine import Buildah, Engine, engine
from images.shell import CommandError, run, say
from openstack_operator import __version__

from . import archive, manifests, notes, sbom

ROOT = catalog.ROOT
_CHARTS = ROOT / "deploy" / "charts"


def main(arguments: list[str] | None = None) -> int:
    """Make a release; return the exit status."""
    options = _options().parse_args(arguments)
    try:
        folder = publish(options.registry, options.output / __version__, with_sbom=options.sbom)
    except (CommandError, LookupError) as error:
        say(f"publish: {error}")
        return 1
    print(folder)
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m publish", description="Push all images to a registry, and write the files of a release."
    )
    parser.add_argument("registry", type=registry.prefix, help="such as registry.example.org/team")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "release", help="folder (%(default)s)")
    parser.add_argument(
        "--sbom", action=argparse.BooleanOptionalAction, default=True, help="list what is in each image (SPDX)"
    )
    return parser


def publish(target: str, folder: Path, *, with_sbom: bool = True) -> Path:
    """Push the images that pods run, and write manifests, charts, the wheel, lists of contents, checksums and notes.
    Returns the folder. Raises CommandError and LookupError.
    """
    created = datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH") or run(["git", "log", "-1", "--format=%ct"])), UTC
    )
    names, builder = list(catalog.deployed()), engine()
    build(builder, names)
    registry.push(builder, target, names)
    references = registry.pinned(target, names)
    releases = {
        path.name: catalog.resolved(path.read_text(encoding="utf-8"), references)
        for path in sorted((ROOT / "releases").glob("*.yaml"))
    }
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_manifests(folder, references["operator"], releases)
    _write_charts(folder, references["operator"], releases, created)
    _write_wheel(folder, created)
    (folder / "images.txt").write_text("".join(f"{each}\n" for each in sorted(references.values())), encoding="utf-8")
    if with_sbom:
        _write_contents(builder, folder, references, created)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (folder / "release-notes.md").write_text(notes.notes(__version__, changelog, references), encoding="utf-8")
    files = [path for path in folder.rglob("*") if path.is_file()]
    (folder / "SHA256SUMS").write_text(archive.checksums(files, folder), encoding="utf-8")
    _sign(folder, references)
    return folder


def _write_manifests(folder: Path, image: str, releases: Mapping[str, str]) -> None:
    say("writing install.yaml")
    text = manifests.install(ROOT / "deploy", image, releases)
    (folder / "install.yaml").write_text(text, encoding="utf-8")
    (folder / "releases").mkdir()
    for name, content in releases.items():
        (folder / "releases" / name).write_text(content, encoding="utf-8")


def _write_charts(folder: Path, image: str, releases: Mapping[str, str], created: datetime) -> None:
    (folder / "charts").mkdir()
    for source in sorted(path for path in _CHARTS.glob("*") if path.is_dir()):
        say(f"packaging the chart {source.name}")
        files = archive.contents(source)
        if source.name == "openstack-operator":
            files["values.yaml"] = manifests.chart_values(files["values.yaml"].decode(), image, releases).encode()
        content = archive.chart(source.name, files, created)
        (folder / "charts" / f"{source.name}-{__version__}.tgz").write_bytes(content)


def _write_wheel(folder: Path, created: datetime) -> None:
    say("building the wheel")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(int(created.timestamp()))}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", f"--wheel-dir={folder}", str(ROOT)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CommandError(f"the wheel could not be built: {result.stderr.strip()[-500:]}")


def _write_contents(builder: Engine, folder: Path, references: Mapping[str, str], created: datetime) -> None:
    if not isinstance(builder, Buildah):
        say("no lists of contents: only images that buildah created can be looked into")
        return
    (folder / "sbom").mkdir()
    for name, reference in references.items():
        say(f"listing the contents of {name}")
        with builder.root(catalog.reference(name)) as root:
            content = sbom.document(reference, sbom.packages(root), created)
        (folder / "sbom" / f"{name}.spdx.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _sign(folder: Path, references: Mapping[str, str]) -> None:
    """Sign each image by its digest, and the checksums, with the key in COSIGN_KEY; without one, say so."""
    key = os.environ.get("COSIGN_KEY")
    if not key:
        say("not signed: COSIGN_KEY names no key")
        return
    if shutil.which("cosign") is None:
        raise CommandError("COSIGN_KEY names a key, but there is no cosign in PATH; install it or unset COSIGN_KEY")
    for reference in sorted(references.values()):
        run(["cosign", "sign", "--yes", "--tlog-upload=false", f"--key={key}", reference])
    blob = ["cosign", "sign-blob", "--yes", "--tlog-upload=false", f"--key={key}"]
    run([*blob, f"--output-signature={folder / 'SHA256SUMS.sig'}", str(folder / "SHA256SUMS")])


if __name__ == "__main__":
    sys.exit(main())
