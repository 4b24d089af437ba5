"""The page of faults of other backups names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/evidence/backup-faults.md"


def test_each_test_of_the_page_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text()))
    functions = {
        (path, node.name)
        for path in {path for path, _ in named}
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert named
    assert sorted(named - functions) == []


def test_each_fault_has_a_report_and_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and "---" not in line][1:]
    assert rows
    assert [row for row in rows if not re.search(r"/issues/\d+\).*::test_", row)] == []
