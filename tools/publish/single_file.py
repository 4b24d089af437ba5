"""The command line as one file for a platform, which runs with python3 alone, and its manifest for krew."""

from __future__ import annotations

import hashlib
import io
import re
import sys
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import yaml

from images.shell import run

from .archive import contents, tar_archive

HERE = Path(__file__).parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Versions of Python with which a file runs: some packages are compiled for one of them."""
EXTRAS = ("common-expression-language", "shtab", "socksio")
"""Packages of the extra `cli`. The first one needs others only for a command line of its own, which nothing loads."""
NAME = "openstack-operator"
PLUGIN = "openstack"
"""Name in krew: `kubectl openstack` runs it."""


class Platform(NamedTuple):
    """A platform by the names of krew and of uv."""

    os: str
    arch: str
    uv: str

    def __str__(self) -> str:
        return f"{self.os}-{self.arch}"


PLATFORMS = (
    Platform("linux", "amd64", "x86_64-manylinux_2_28"),
    Platform("linux", "arm64", "aarch64-manylinux_2_28"),
    Platform("darwin", "arm64", "aarch64-apple-darwin"),
)


def requirements(lock: str, extra_lock: str) -> str:
    """Return the entries, with hashes, of all packages of a lock file, and of the extra packages in another one."""
    names = {_name(each) for each in _entries(lock)} | set(EXTRAS)
    return "".join(each for each in _entries(extra_lock) if _name(each) in names)


def download(requirement_file: Path, platform: Platform, python: str, folder: Path) -> dict[str, bytes]:
    """Install the packages for a platform and a version of Python into a folder, and return their files. Raises
    CommandError.
    """
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", f"--python-platform={platform.uv}", f"--python-version={python}"]
    run([*command, f"--target={folder}", "-r", str(requirement_file)])
    return package_files(folder)


def package_files(folder: Path) -> dict[str, bytes]:
    """Return the files of installed packages, without commands, and without what Python or the installer wrote."""
    files = contents(folder)
    return {path: data for path, data in files.items() if not _UNUSED.search(path)}


_UNUSED = re.compile(r"(^|/)(__pycache__|bin)/|\.pyc$|(^|/)(RECORD|INSTALLER|REQUESTED|uv_cache\.json|\.lock)$")


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """Return the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {each: archive.read(each) for each in archive.namelist() if not each.endswith("/")}


def single_file(
    program: Mapping[str, bytes], packages: Mapping[str, Mapping[str, bytes]], version: str, created: datetime
) -> bytes:
    """Return a file that runs the program; `packages` has the files that it needs by versions of Python. What is the
    same for all of them is in it once.
    """
    first_files, *more_files = packages.values()
    same = {path for path, data in first_files.items() if all(each.get(path) == data for each in more_files)}
    files = {f"all/{path}": data for path, data in {**{path: first_files[path] for path in same}, **program}.items()}
    for python, files_of_python in packages.items():
        files |= {f"only/{python}/{path}": data for path, data in files_of_python.items() if path not in same}
        files[f"only/{python}/openstack_operator_python.txt"] = f"{python}\n".encode()
    digest = hashlib.sha256(b"".join(path.encode() + hashlib.sha256(files[path]).digest() for path in sorted(files)))
    files["build.txt"] = f"{version}-{digest.hexdigest()[:16]}\n".encode()
    files["__main__.py"] = (HERE / "single_file_main.py").read_bytes()
    content = io.BytesIO()
    content.write(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, created.timetuple()[:6])
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[path])
    return content.getvalue()


def plugin_archive(program: bytes, created: datetime) -> bytes:
    """Return the archive from which krew installs a file."""
    return tar_archive({NAME: program, "LICENSE": (HERE.parents[1] / "LICENSE").read_bytes()}, created, programs={NAME})


def plugin_files(version: str, url: str | None, archives: Mapping[Platform, tuple[str, bytes]]) -> Mapping[str, bytes]:
    """Return the files from which krew installs the plug-in: the archives, and the manifest if there is a URL at which
    these are served.
    """
    manifest = {"krew.yaml": plugin_manifest(version, url, archives).encode()} if url else {}
    return {**dict(archives.values()), **manifest}


def plugin_manifest(version: str, url: str, archives: Mapping[Platform, tuple[str, bytes]]) -> str:
    """Return the manifest for krew; `archives` has name and content by platform, and `url` is their folder."""
    manifest = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN},
        "spec": {
            "version": f"v{version}",
            "shortDescription": "Look at OpenStack clouds and check their manifests",
            "description": "The command line of openstack-operator: checks manifests of clouds and shows what they\n"
            "change, shows clouds with what keeps them from being ready, and collects logs.\n",
            "caveats": f"Needs python3 in the search path, version {PYTHONS[0]} to {PYTHONS[-1]}.\n",
            "platforms": [
                {
                    "selector": {"matchLabels": {"os": platform.os, "arch": platform.arch}},
                    "uri": f"{url.rstrip('/')}/{name}",
                    "sha256": hashlib.sha256(content).hexdigest(),
                    "files": [{"from": NAME, "to": "."}, {"from": "LICENSE", "to": "."}],
                    "bin": NAME,
                }
                for platform, (name, content) in archives.items()
            ],
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False, width=120)


def _entries(lock: str) -> list[str]:
    """Return the entries of a lock file: a line with the version, and indented ones with hashes."""
    return [each for each in re.split(r"(?m)^(?=[A-Za-z0-9])", lock) if re.match("[A-Za-z0-9]", each)]


def _name(entry: str) -> str:
    return re.split(r"[=\[ ;]", entry, maxsplit=1)[0].lower()
