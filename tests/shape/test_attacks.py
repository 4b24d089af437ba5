"""The page of attacks and the tests that make them say the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/evidence/attacks.md"
MARKER = "pytest.mark.security"


def marked(path: Path) -> set[str]:
    """Tests of a file that bear the marker of attacks."""
    tree = ast.parse(path.read_text())
    whole = any(isinstance(node, ast.Assign) and _is_of_all(node) for node in tree.body)
    tests = (node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {
        test.name
        for test in tests
        if test.name.startswith("test_") and (whole or any(ast.unparse(each) == MARKER for each in test.decorator_list))
    }


def _is_of_all(node: ast.Assign) -> bool:
    return [ast.unparse(target) for target in node.targets] == ["pytestmark"] and MARKER in ast.unparse(node.value)


@pytest.fixture(scope="module")
def named() -> set[tuple[str, str]]:
    """File and name of each test on the page."""
    return set(re.findall(r"`(tests/\w+/\w+\.py)::(\w+)`", PAGE.read_text()))


@pytest.fixture(scope="module")
def attacks() -> dict[str, set[str]]:
    """Tests that bear the marker, by file."""
    found = {str(path.relative_to(ROOT)): marked(path) for path in ROOT.glob("tests/*/test_*.py")}
    return {path: tests for path, tests in found.items() if tests}


def test_each_test_on_the_page_is_an_attack(named: set[tuple[str, str]], attacks: dict[str, set[str]]) -> None:
    assert len(named) > 60
    assert [(path, name) for path, name in sorted(named) if name not in attacks.get(path, ())] == []


def test_each_file_with_attacks_is_on_the_page(named: set[tuple[str, str]], attacks: dict[str, set[str]]) -> None:
    assert sorted(attacks.keys() - {path for path, _ in named}) == []


def test_each_row_names_a_commit() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if "::" in line]
    assert [row for row in rows if not re.search(r"\| `[0-9a-f]{7,}` \S", row)] == []


def test_make_runs_the_folder_of_each_attack(attacks: dict[str, set[str]]) -> None:
    command = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "-m security" in line)
    assert {str(Path(path).parent) for path in attacks} <= set(command.split())
