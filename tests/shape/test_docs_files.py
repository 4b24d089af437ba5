"""The tree is as the page of its architecture says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SRC = "src/openstack_operator"
LISTED = (SRC, f"{SRC}/cli", f"{SRC}/parts", f"{SRC}/runtime", "tools", "tests")
"""Folders of which the page names each folder."""
TOP = {"deploy", "docs", "images", "releases"}
TREE = re.compile(r"^```\n(src/openstack_operator/\n.*?)^```", re.MULTILINE | re.DOTALL)


def tracked() -> list[str]:
    command = ["git", "ls-files", "-z"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip("\0").split("\0")


def folders(names: list[str]) -> set[str]:
    """Folders in the listed ones, and those at the top."""
    paths = [Path(name) for name in names]
    inner = {
        f"{parent}/{path.relative_to(parent).parts[0]}"
        for path in paths
        for parent in LISTED
        if path.is_relative_to(parent) and len(path.relative_to(parent).parts) > 1
    }
    return inner | {name for name in TOP if any(path.parts[0] == name for path in paths)}


def described(page: str) -> set[str]:
    """Folders in the tree of the page: two spaces further in for each level."""
    [tree] = TREE.findall(page)
    names: set[str] = set()
    parents: list[str] = []
    for line in tree.splitlines():
        indent, name = re.match(r"( *)(\S+)", line).groups()  # type: ignore[union-attr]
        level = len(indent) // 2
        if level <= 4 and name.endswith("/"):
            parents = [*parents[:level], name.rstrip("/")]
            names.add("/".join(parents))
    return names - {SRC, "tests", "tools", ".github", "changelog.d"}


def test_the_architecture_names_every_folder() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    assert sorted(described(page) ^ folders(tracked())) == []
