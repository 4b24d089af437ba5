"""The clients under test with their own suites, installed once: packages by lock files, a Go module by go.sum.

`make lock` makes locks/*.lock of locks/*.in: suites.lock has the versions of requirements-dev.lock.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from functools import partial
from pathlib import Path

from tools.localcluster import build, paths

HERE = Path(__file__).parent
SUITES = HERE / "locks" / "suites.lock"
TOBIKO = HERE / "locks" / "tobiko.lock"
GOPHERCLOUD = "github.com/gophercloud/gophercloud/v2"
_SDK = "openstacksdk"


def environment(lock: Path) -> Path:
    """Return the folder of a virtual environment that has the packages of a lock file, compared with its hashes."""
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    return build.once(paths.cache() / f"{lock.stem}-{digest}", lock.stem, 1, partial(_install, lock))


def site_packages(folder: Path) -> Path:
    """Return where the modules of a virtual environment are."""
    return folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def gophercloud() -> Path:
    """Return the folder of the Go module, with its tests."""
    return build.downloaded(HERE / "gophercloud", GOPHERCLOUD)


def requirement(lock: str, package: str) -> str:
    """Return the lines of a lock file that pin one package."""
    match = re.search(rf"^{re.escape(package)}==.*(?:\n    --hash=.*)+\n", lock, re.MULTILINE)
    if match is None:
        raise ValueError(f"{package} is not pinned")
    return match[0]


def _install(lock: Path, folder: Path) -> None:
    venv.create(folder, with_pip=True)
    _pip(folder, "install", "--no-compile", "--only-binary=:all:", f"--requirement={lock}")
    if lock == SUITES:
        _add_examples(folder, requirement(lock.read_text(encoding="utf-8"), _SDK))


def _add_examples(folder: Path, pin: str) -> None:
    """Add the examples of openstacksdk, which its tests import and its wheel lacks, from its source archive."""
    with tempfile.TemporaryDirectory() as name:
        lock = Path(name) / "requirements.lock"
        lock.write_text(pin, encoding="utf-8")
        _pip(folder, "download", "--no-deps", "--no-binary=:all:", f"--requirement={lock}", f"--dest={name}")
        (archive,) = Path(name).glob("*.tar.gz")
        with tarfile.open(archive) as source:
            for member in source.getmembers():
                root, _, path = member.name.partition("/")
                if path.startswith("examples/") and member.isfile() and root:
                    member.name = path
                    source.extract(member, site_packages(folder), filter="data")


def _pip(folder: Path, command: str, *options: str) -> None:
    words = [str(folder / "bin" / "python"), "-m", "pip", command, "--quiet", "--disable-pip-version-check"]
    subprocess.run([*words, "--require-hashes", *options], check=True)
