"""Names of all tests of the sets, in names.txt: a run accounts for each of them, so that none is missed.

`python -m tests.e2e.on_tempest.names LIST` writes them anew, of what `tempest run --list-tests` prints in the image.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from .expectations import SETS

FILE = Path(__file__).with_name("names.txt")
_LOCK = Path(__file__).parents[3] / "images" / "tempest" / "requirements.lock"
_SMOKE = "[smoke]"
"""Tags of a test, of which the sets look at this one."""


def listed(text: str | None = None) -> list[str]:
    """Return the tests of the sets, some of them with their tag."""
    names: list[str] = []
    for line in (text or FILE.read_text(encoding="utf-8")).splitlines()[1:]:
        group, _, tests = line.partition(": ")
        for test in tests.split():
            names.append(f"{group}.{test.removesuffix('*')}{_SMOKE if test.endswith('*') else ''}")
    return names


def of_pattern(pattern: str, names: Iterable[str] | None = None) -> list[str]:
    """Return the tests that a regular expression chooses, without tags."""
    return [name.removesuffix(_SMOKE) for name in names or listed() if re.search(pattern, name)]


def written(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines of names.txt for the tests that Tempest lists: first the versions; then a class, its tests, a star
    at one of smoke.
    """
    yield versions()
    sets = "|".join(SETS.values())
    tests = sorted({line.strip() for line in lines if "." in line and re.search(sets, line)})
    for group, names in groupby(tests, lambda name: name.partition("[")[0].rpartition(".")[0]):
        yield f"{group}: {' '.join(map(_shown, names))}"


def versions() -> str:
    """Return the packages of the image whose tests these are."""
    packages = re.findall(r"^\S+==\S+", _LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    return f"# {' '.join(packages)}"


def _shown(name: str) -> str:
    test, _, tags = name.partition("[")
    return test.rpartition(".")[2] + ("*" if re.search(SETS["smoke"], f"[{tags}") else "")


if __name__ == "__main__":
    FILE.write_text("\n".join([*written(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()), ""]))
