"""Packages of PyPI for the Python of the images, fetched on the host and verified by hash."""

from __future__ import annotations

import sys
from pathlib import Path

from images import cache
from images.shell import run

LOCK = "requirements.lock"
"""In the build context of an image that has such packages."""

PYTHON = "3.13"
"""Debian trixie's Python."""

GLIBC = 40
"""Wheels for glibc up to 2.40 run on Debian trixie, which has 2.41; uv knows no later one."""

PLATFORMS = ("manylinux2014_x86_64", *(f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)))


def unpack(lock: Path, target: Path) -> None:
    """Unpack the packages of the lock file to `target`, ready to be imported by an image's Python."""
    command = [_python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-deps"]
    command += ["--require-hashes", "--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp"]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    run([*command, f"--target={target}", f"--requirement={lock}"])


def _python() -> str:
    """Return the path of a Python with pip, which a virtual environment made by uv does not have."""
    folder = cache.directory("pip")
    python = folder / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", str(folder)])
    return str(python)
