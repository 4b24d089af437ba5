"""Tests of the unit layer lie in folders called like the packages that they test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
UNIT = ROOT / "tests" / "unit"
PACKAGE = ROOT / "src" / "openstack_operator"
OTHERS = {"tools": ROOT / "tools", "images": ROOT / "images", "harness": ROOT / "tests"}
"""Folders of tests of what is not the product; `tests` would be one name for two packages."""
VOCABULARY = {"api", "kube", "plan"}
"""Packages that all others speak in: that a test imports them does not say what it tests."""


def folder_of(name: str) -> Path:
    return OTHERS.get(name, PACKAGE / name)


@cache
def modules(path: Path) -> frozenset[Path]:
    """Return the files and folders of this repository that a file imports."""
    found = set[Path]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= set(_existing([alias.name for alias in node.names]))
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= set(_existing(inner)) or set(_existing([node.module]))
    return frozenset(found)


def _existing(names: list[str]) -> Iterator[Path]:
    for name in names:
        for base in (ROOT / "src", ROOT):
            place = base / name.replace(".", "/")
            yield from (each for each in (place, place.with_suffix(".py")) if each.exists())


def helped(path: Path) -> set[Path]:
    """Return what a file imports, itself or by the helpers of tests that it imports."""
    found, left = set[Path](), [path]
    while left:
        for each in modules(left.pop()) - found:
            found.add(each)
            if each.is_relative_to(ROOT / "tests") and each.suffix == ".py":
                left.append(each)
    return found


def is_named_after(path: Path, folder: Path) -> bool:
    """Whether the name begins with that of a folder in the package: of a service, or of a tool."""
    rest = path.stem.removeprefix("test_")
    return any(rest == name or rest.startswith(f"{name}_") for name in (each.name for each in folder.iterdir()))


def in_folders() -> list[Path]:
    return sorted(UNIT.glob("*/test_*.py"))


def test_folders_of_unit_tests_have_names_of_packages() -> None:
    names = {path.parent.name for path in in_folders()}
    assert len(names) > 10
    assert {name for name in names if not folder_of(name).is_dir()} == set()


def test_unit_tests_lie_in_the_folder_of_a_package_that_they_import() -> None:
    elsewhere = [
        str(path.relative_to(UNIT))
        for path in in_folders()
        if not is_named_after(path, folder_of(path.parent.name))
        and not any(each.is_relative_to(folder_of(path.parent.name)) for each in helped(path))
    ]
    assert elsewhere == []


def test_unit_tests_of_one_package_are_not_beside_those_of_all() -> None:
    """What is left beside the folders is about modules outside of packages, as the registry is, or about several."""
    misplaced = {}
    for path in sorted(UNIT.glob("test_*.py")):
        imported = modules(path)
        if not any(
            each.parent == PACKAGE and each.stem not in ("testing", "yaml_text") for each in imported if each.is_file()
        ):
            packages = {each.relative_to(PACKAGE).parts[0] for each in imported if PACKAGE in each.parents}
            packages -= {"testing.py", "yaml_text.py", *VOCABULARY}
            if len(packages) == 1:
                misplaced[path.name] = packages
    assert misplaced == {}
