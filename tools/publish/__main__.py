"""python -m tools.publish REGISTRY: a release, in build/release."""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.publish")

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import yaml

from images import catalog, registry
from images.build import build
from images.engine import Buildah, Engine, engine
from images.shell import CommandError, run, say
from openstack_operator import __version__

from . import (
    archive,
    artifacts,
    fragments,
    install_manifests,
    notes,
    olm_bundle,
    provenance,
    released,
    sbom,
    signatures,
    single_file,
)

ROOT = catalog.ROOT
_CHARTS = ROOT / "deploy" / "charts"


def main(arguments: list[str] | None = None) -> int:
    """Make a release; return the exit status."""
    options = _options().parse_args(arguments)
    try:
        releases = options.openstack or [catalog.RELEASE]
        image_names = {name for each in releases for name in catalog.of_release(each, all_versions=True)}
        names = options.only or [name for name in catalog.names() if name in image_names]
        target = options.output / options.version
        origin = Origin(options.source, options.builder)
        folder = publish(
            options.registry,
            target,
            names,
            releases,
            options.version,
            sbom=options.sbom,
            url=options.url,
            origin=origin,
        )
    except (CommandError, LookupError) as error:
        say(f"publish: {error}")
        return 1
    print(folder)
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.publish", description="Push all images to a registry, and write the files of a release."
    )
    parser.add_argument("registry", type=registry.prefix, help="such as registry.example.org/team")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "release", help="folder (%(default)s)")
    parser.add_argument(
        "--openstack", action="append", metavar="RELEASE", help=f"of OpenStack, may be repeated ({catalog.RELEASE})"
    )
    parser.add_argument(
        "--sbom", action=argparse.BooleanOptionalAction, default=True, help="list what is in each image (SPDX)"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=catalog.deployed(),
        metavar="IMAGE",
        help="push these images alone, for a trial; release files name the others by tags of this machine",
    )
    parser.add_argument(
        "--version",
        type=install_manifests.version,
        default=__version__,
        help="version of charts and bundle (%(default)s); a later one for a build of your own",
    )
    parser.add_argument(
        "--url",
        help="where you will serve the files of the release, such as https://releases.example.org/0.1.0: the manifest"
        " for krew names it, and is not written without it",
    )
    parser.add_argument("--source", default="", metavar="URL", help="URL of your Git repository, for the provenance")
    parser.add_argument(
        "--builder",
        default=provenance.BUILDER,
        metavar="URI",
        help="name of the machine or pipeline that runs this, for the provenance (%(default)s)",
    )
    return parser


class Origin(NamedTuple):
    """The source and the builder, as the user names them."""

    source: str = ""
    builder: str = provenance.BUILDER


def publish(
    target: str,
    folder: Path,
    names: Sequence[str],
    of_releases: Sequence[str] = (catalog.RELEASE,),
    version: str = __version__,
    *,
    sbom: bool = True,
    url: str | None = None,
    origin: Origin | None = None,
) -> Path:
    """Push these images, charts and the bundle, and write manifests, the files of these releases of OpenStack, the
    wheel, the command line as single files, lists of contents, provenance, checksums and notes. Returns the folder.
    Raises CommandError and LookupError.
    """
    origin = origin or Origin()
    checkout = provenance.source(ROOT, origin.source)
    created = datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH") or run(["git", "log", "-1", "--format=%ct"])), UTC
    )
    before = released.last()
    # First of all: nothing is pushed for a version whose notes would not say what an upgrade does.
    upgrade = released.notes(before, released.changes(before))
    builder = engine()
    build(builder, names)
    registry.push(builder, target, names)
    references = registry.pinned(target, names)
    releases = {
        f"{name}.yaml": catalog.resolved((ROOT / "releases" / f"{name}.yaml").read_text(encoding="utf-8"), references)
        for name in of_releases
    }
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_manifests(folder, references["operator"], releases, version)
    pushed = _write_charts(folder, f"{target}/charts", references["operator"], releases, version, created)
    pushed |= _write_bundle(folder, target, releases, references, version, created)
    wheel = _write_wheel(folder, created)
    _write_command_line(folder, single_file.wheel_files(wheel), version, url, created)
    (folder / "images.txt").write_text("".join(f"{each}\n" for each in sorted(references.values())), encoding="utf-8")
    packages = _write_contents(builder, folder, references, created) if sbom else {}
    statements = {
        name: provenance.of_image(name, reference, checkout, packages.get(name, ()), origin.builder, version=version)
        for name, reference in references.items()
    }
    statements |= {
        name: provenance.of_files(name, reference, checkout, origin.builder, version=version)
        for name, reference in pushed.items()
    }
    _write(folder, {f"provenance/{name}.intoto.json": provenance.text(each) for name, each in statements.items()})
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    new = fragments.entries(fragments.FOLDER)
    text = notes.notes(__version__, changelog, references | pushed, upgrade, new)
    (folder / "release-notes.md").write_text(text, encoding="utf-8")
    files = [path for path in folder.rglob("*") if path.is_file()]
    (folder / "SHA256SUMS").write_text(archive.checksums(files, folder), encoding="utf-8")
    signatures.sign(folder / "SHA256SUMS", [*references.values(), *pushed.values()])
    everything = {**references, **pushed}
    signatures.attach({everything[name]: statement for name, statement in statements.items()})
    return folder


def _write_manifests(folder: Path, image: str, releases: Mapping[str, str], version: str) -> None:
    say("writing install.yaml")
    text = install_manifests.relabeled(install_manifests.install(ROOT / "deploy", image, releases), version)
    (folder / "install.yaml").write_text(text, encoding="utf-8")
    extra = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "deploy" / "crds-c5c3").glob("*.yaml")}
    _write(folder, {path: text.encode() for path, text in install_manifests.kustomizations(text, extra).items()})
    (folder / "releases").mkdir()
    for name, content in releases.items():
        (folder / "releases" / name).write_text(content, encoding="utf-8")


def _write_charts(
    folder: Path, target: str, image: str, releases: Mapping[str, str], version: str, created: datetime
) -> dict[str, str]:
    """Write the charts, push them, and return their names in the registry."""
    (folder / "charts").mkdir()
    names: dict[str, str] = {}
    for source in sorted(path for path in _CHARTS.glob("*") if path.is_dir()):
        say(f"packaging the chart {source.name}")
        files = archive.contents(source)
        files |= {path: install_manifests.of_version(path, files[path].decode(), version).encode() for path in files}
        if source.name == "openstack-operator":
            files["values.yaml"] = install_manifests.chart_values(
                files["values.yaml"].decode(), image, releases
            ).encode()
        content = archive.chart(source.name, files, created)
        (folder / "charts" / f"{source.name}-{version}.tgz").write_bytes(content)
        artifact = artifacts.chart(files["Chart.yaml"].decode(), content)
        names[f"charts/{source.name}"] = artifacts.push(artifact, f"{target}/{source.name}:{version}")
    return names


def _write_bundle(
    folder: Path,
    target: str,
    releases: Mapping[str, str],
    references: Mapping[str, str],
    version: str,
    created: datetime,
) -> dict[str, str]:
    """Write the bundle, push it as an image, and return its name in the registry."""
    say("writing the bundle for OLM")
    earlier = released.published(version)
    files = olm_bundle.files(ROOT, references, releases, version, created, earlier)
    _write(folder / "bundle", files)
    _write(folder / "catalog", {"channel.yaml": olm_bundle.channel(version, earlier).encode()})
    labels = yaml.safe_load(files[olm_bundle.ANNOTATIONS])["annotations"]
    pushed = artifacts.push(artifacts.image(files, labels), f"{target}/{olm_bundle.NAME}:{version}")
    return {olm_bundle.NAME: pushed}


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def _write_wheel(folder: Path, created: datetime) -> Path:
    say("building the wheel")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(int(created.timestamp()))}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", f"--wheel-dir={folder}", str(ROOT)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise CommandError(f"the wheel could not be built: {result.stderr.strip()[-500:]}")
    return next(folder.glob("*.whl"))


def _write_command_line(
    folder: Path, program: Mapping[str, bytes], version: str, url: str | None, created: datetime
) -> None:
    """Write the command line as a file for each platform, and what krew installs it from."""
    locks = [(ROOT / name).read_text(encoding="utf-8") for name in ("requirements.lock", "requirements-dev.lock")]
    archives: dict[single_file.Platform, tuple[str, bytes]] = {}
    for platform in single_file.PLATFORMS:
        say(f"writing the command line for {platform}")
        with tempfile.TemporaryDirectory() as name:
            packages = Path(name)
            (packages / "requirements.txt").write_text(single_file.requirements(*locks), encoding="utf-8")
            of_pythons = {
                python: single_file.download(packages / "requirements.txt", platform, python, packages / python)
                for python in single_file.PYTHONS
            }
        content = single_file.single_file(program, of_pythons, version, created)
        file = folder / f"{single_file.NAME}-{version}-{platform}.pyz"
        file.write_bytes(content)
        file.chmod(0o755)
        archives[platform] = f"{file.stem}.tar.gz", single_file.plugin_archive(content, created)
    _write(folder, single_file.plugin_files(version, url, archives))


def _write_contents(
    builder: Engine, folder: Path, references: Mapping[str, str], created: datetime
) -> dict[str, list[sbom.Package]]:
    """Write what is in each image, and return it."""
    if not isinstance(builder, Buildah):
        say("no lists of contents: only images that buildah created can be looked into")
        return {}
    (folder / "sbom").mkdir()
    packages: dict[str, list[sbom.Package]] = {}
    for name, reference in references.items():
        say(f"listing the contents of {name}")
        with builder.root(catalog.reference(name)) as root:
            packages[name] = sbom.packages(root)
        content = sbom.document(reference, packages[name], created)
        (folder / "sbom" / f"{name}.spdx.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return packages


if __name__ == "__main__":
    sys.exit(main())
