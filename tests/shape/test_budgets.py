"""How large things may grow before they must be cut in two."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

SRC = Path(__file__).parent.parent.parent / "src" / "openstack_operator"
MODULES = sorted(SRC.rglob("*.py"))

MODULE, PLAINEST, FUNCTION = 400, 150, 40


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def faults(text: str) -> list[str]:
    """Return what is wrong with the text of a module, which is read once: that takes longer than to look at it."""
    tree = ast.parse(text)
    found = ["it is too long"] if len(text.splitlines()) > MODULE else []
    if not ast.get_docstring(tree):
        found.append("a module begins with the idea, in a sentence")
    if "TODO" in text:
        found.append("something is left to do")
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            # A plan is read like a recipe: its length is the number of its steps.
            limit = 2 * FUNCTION if node.name in {"plan", "crd"} else FUNCTION + 20
            if length > limit:
                found.append(f"{node.name} has {length} lines")
    return found


def test_modules_keep_to_their_budgets() -> None:
    by_module = {str(path.relative_to(SRC)): faults(path.read_text(encoding="utf-8")) for path in MODULES}
    assert len(by_module) > 500
    assert {module: found for module, found in by_module.items() if found} == {}


def test_the_plainest_service_is_small() -> None:
    assert sum(lines(path) for path in (SRC / "services" / "placement").glob("*.py")) <= PLAINEST


def test_dependencies_are_few_and_justified() -> None:
    text = (SRC.parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    wanted: list[str] = tomllib.loads(text)["project"]["dependencies"]
    assert len(wanted) <= 10
    for requirement in wanted:
        line = next(line for line in text.splitlines() if f'"{requirement}"' in line)
        assert "#" in line, f"{requirement}: say what it is for"
