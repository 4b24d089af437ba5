"""Packages of the package index by release of OpenStack: `python -m images.locks RELEASE CONSTRAINTS`.

Writes `images/pypi/RELEASE.lock`, with hashes, from `RELEASE.in` there and a copy of OpenStack's upper-constraints.txt
of that release. Comments of the lock file say what needs each package, so that an image gets those it needs.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("images.locks")

import argparse
import functools
import re
import sys
import tempfile
import tomllib
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

from images.shell import run
from images.wheels import GLIBC, PYTHON

FOLDER = Path(__file__).parent / "pypi"

PLATFORM = f"x86_64-manylinux_2_{GLIBC}"

ELSEWHERE = frozenset({"certifi", "ncclient", "ovs", "python-ldap", "simplegeneric", "testresources"})
"""Packages that no image takes from the index. certifi is Debian's, which trusts the authorities of the image. The
others are there as source only: Debian has those that are used, and ncclient and testresources are not.
"""

EXTRA_CONSTRAINTS = ("setuptools<81",)
"""Later ones have no pkg_resources, which packages of these releases import; upper-constraints.txt does not say so."""

_ENTRY = re.compile(r"^([a-z0-9.-]+)==\S+")
_VIA = re.compile(r"^    #(?: via)?\s+([a-z0-9.-]+)(?:\[.*\])?$")
_USABLE = re.compile(
    r"-(?:py3|py2\.py3)-none-any\.whl$|-(?:cp313-cp313|cp3\d+-abi3|py3-none)-manylinux.*x86_64.*\.whl$"
)


class Entry(NamedTuple):
    """A package of a lock file."""

    text: str
    needed_by: frozenset[str]


def releases() -> tuple[str, ...]:
    """Return the releases whose images are made of packages of the index."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.lock")))


@functools.cache
def entries(release: str) -> dict[str, Entry]:
    """Return the packages of a lock file by name."""
    packages: dict[str, Entry] = {}
    for block in re.split(
        r"^(?=[a-z0-9])", (FOLDER / f"{release}.lock").read_text(encoding="utf-8"), flags=re.MULTILINE
    ):
        if match := _ENTRY.match(block):
            lines = block.splitlines()
            needed_by = frozenset(via[1] for line in lines if (via := _VIA.match(line)))
            text = "".join(f"{line}\n" for line in lines if not line.lstrip().startswith("#"))
            packages[match[1]] = Entry(text, needed_by)
    return packages


def closure(release: str, roots: Iterable[str]) -> set[str]:
    """Return the names of these packages and of all that they need. Raises KeyError for one that is not locked."""
    packages = entries(release)
    names, new = set[str](), set(roots)
    if unknown := new - packages.keys():
        raise KeyError(f"images/pypi/{release}.lock lacks {', '.join(sorted(unknown))}")
    while new:
        names |= new
        new = {name for name, entry in packages.items() if name not in names and entry.needed_by & names}
    return names


def requirements(release: str, roots: Iterable[str], present: Iterable[str]) -> str:
    """Return the lock file of an image: the packages that it needs and its parents, with the roots `present`, lack."""
    packages = entries(release)
    names = closure(release, roots) - closure(release, present)
    return "".join(packages[name].text for name in sorted(names))


def _compiled(release: str, constraints: Path) -> str:
    """Return the lock file of a release, with the hashes of all files."""
    with tempfile.TemporaryDirectory() as folder:
        limits = Path(folder, "constraints")
        unlimited = tuple(_remarks(release, "unlimited"))
        official = constraints.read_text(encoding="utf-8").replace("===", "==").splitlines()
        official = [line for line in official if not line.lower().startswith(unlimited)]
        limits.write_text("\n".join([*official, *EXTRA_CONSTRAINTS]), encoding="utf-8")
        lock, files = Path(folder, "lock"), Path(folder, "pylock.toml")
        elsewhere = {*ELSEWHERE, *_remarks(release, "elsewhere")}
        common = [
            "--quiet",
            "--only-binary=:all:",
            *(f"--no-binary={name}" for name in sorted(elsewhere)),
            "--no-python-downloads",
            f"--python-version={PYTHON}",
            f"--python-platform={PLATFORM}",
        ]
        compile_ = [sys.executable, "-m", "uv", "pip", "compile", *common]
        lock_options = ["--generate-hashes", "--no-emit-index-url", "--no-header", f"--constraints={limits}"]
        run([*compile_, *lock_options, str(FOLDER / f"{release}.in"), f"--output-file={lock}"])
        text = lock.read_text(encoding="utf-8")
        pins = Path(folder, "pins")
        pins.write_text(
            "".join(f"{match[0].split(' ')[0]}\n" for match in _ENTRY_LINES.finditer(text)), encoding="utf-8"
        )
        run([*compile_, "--no-deps", "--format=pylock.toml", str(pins), f"--output-file={files}"])
        return _with_usable_hashes(text, tomllib.loads(files.read_text(encoding="utf-8")), elsewhere)


_ENTRY_LINES = re.compile(_ENTRY.pattern, re.MULTILINE)


def _remarks(release: str, word: str) -> list[str]:
    """Return the names after a word in the comments of a release's requirements."""
    text = (FOLDER / f"{release}.in").read_text(encoding="utf-8")
    return [name for line in re.findall(rf"^# {word}: (.*)", text, re.MULTILINE) for name in line.split()]


def _with_usable_hashes(text: str, files: dict[str, Any], elsewhere: Container[str]) -> str:
    """Return a lock file with only the hashes of files for the Python of the images."""
    usable: set[str] = set()
    for package in files["packages"]:
        for wheel in cast("list[dict[str, Any]]", package.get("wheels", [])):
            if _USABLE.search(str(wheel.get("name") or wheel["url"].rpartition("/")[2])):
                usable.add(str(wheel["hashes"]["sha256"]))
    blocks: list[str] = []
    for block in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE):
        match = _ENTRY.match(block)
        if match is None or match[1] in elsewhere:
            continue
        pin, *rest = block.splitlines()
        hashes = [digest for digest in re.findall(r"sha256:(\w+)", block) if digest in usable]
        if not hashes:
            raise ValueError(f"{match[0]}: the index has no wheel for Python {PYTHON}; see ELSEWHERE")
        via = [line for line in rest if line.lstrip().startswith("#") and " -c " not in line and " -r " not in line]
        lines = [pin.rstrip(" \\"), *(f"    --hash=sha256:{digest}" for digest in hashes)]
        blocks.append(" \\\n".join(lines) + "".join(f"\n{line}" for line in via) + "\n")
    return "".join(blocks)


def main() -> None:
    """Write the lock file of a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("release")
    parser.add_argument("constraints", type=Path, help="upper-constraints.txt of the release")
    options = parser.parse_args()
    path = FOLDER / f"{options.release}.lock"
    path.write_text(_compiled(options.release, options.constraints), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
