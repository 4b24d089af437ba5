"""How large things may grow before they must be cut in two."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent.parent / "src" / "openstack_operator"
MODULES = sorted(SRC.rglob("*.py"))

MODULE, PLAINEST, FUNCTION = 400, 150, 40


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SRC)))
def test_module(module: Path) -> None:
    """One test, since to read it takes longer than to look at it."""
    text = module.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MODULE
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "a module begins with the idea, in a sentence"
    assert "TODO" not in text
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            # A plan is read like a recipe: its length is the number of its steps.
            limit = 2 * FUNCTION if node.name in {"plan", "crd"} else FUNCTION + 20
            assert length <= limit, f"{module.name}: {node.name} has {length} lines"


def test_the_plainest_service_is_small() -> None:
    assert sum(lines(path) for path in (SRC / "services" / "placement").glob("*.py")) <= PLAINEST


def test_dependencies_are_few_and_justified() -> None:
    text = (SRC.parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    wanted: list[str] = tomllib.loads(text)["project"]["dependencies"]
    assert len(wanted) <= 10
    for requirement in wanted:
        line = next(line for line in text.splitlines() if f'"{requirement}"' in line)
        assert "#" in line, f"{requirement}: say what it is for"
