"""Planning is pure. That imports go in one direction is for `lint-imports` to say, which `make style` runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from openstack_operator.api import SERVICE_KINDS
from openstack_operator.registry import EXTERNAL_KINDS

PURE = ("api", "plan", "kube", "oslo", "parts", "services")


def sources(root: Path, *packages: str) -> list[Path]:
    package = root / "src" / "openstack_operator"
    return sorted(path for name in packages or ("",) for path in (package / name).rglob("*.py"))


@pytest.fixture(scope="module")
def nodes(root: Path) -> Mapping[Path, list[ast.AST]]:
    """Return what is looked at here in each module of the package, which is read once."""
    return {
        path: [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, (ast.Call, ast.ExceptHandler, ast.alias))
        ]
        for path in sources(root)
    }


def test_planning_does_not_look_at_the_clock(root: Path, nodes: Mapping[Path, list[ast.AST]]) -> None:
    checks = 0
    looks = {"now", "utcnow", "today"}
    for path in sources(root, *PURE):
        for node in nodes[path]:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                checks += 1
                assert node.func.attr not in looks, f"{path}:{node.lineno}: ctx.now is the time"
    assert checks


def test_planning_opens_no_file(root: Path, nodes: Mapping[Path, list[ast.AST]]) -> None:
    checks = 0
    for path in sources(root, *PURE):
        for node in nodes[path]:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                checks += 1
                assert node.func.id not in {"open", "exec", "eval", "print", "input"}, f"{path}:{node.lineno}"
    assert checks


def test_everything_is_caught_in_few_places(root: Path, nodes: Mapping[Path, list[ast.AST]]) -> None:
    broad = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in sources(root)
        for node in nodes[path]
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}))
    ]
    # Around the secrets of one project, around one object that is read, whom its change concerns, a pass over it, and
    # the clean-up once it is gone: others go on. Around a plan in its thread: the pass gets the error. Around a plan on
    # paper: no input ends the command line with a traceback. Around a WSGI program: its clients get an answer.
    places = [place.partition(":")[0].removeprefix("src/openstack_operator/") for place in broad]
    # One of the two there ends what an answer has begun, and raises again.
    agents = [*["agents/api/wsgi_errors.py"] * 2, "agents/barbican/forget_projects.py"]
    rooms = ("cache/informer", "reconcile/passes", "reconcile/passes", "reconcile/planning", "serve/wakeups")
    runtime = [f"runtime/{name}.py" for name in rooms]
    assert places == ["admission/presence.py", *agents, "cli/render.py", *runtime], broad


def test_nothing_sleeps_while_planning_or_in_actuators(root: Path, nodes: Mapping[Path, list[ast.AST]]) -> None:
    checks = 0
    for path in sources(root, *PURE, "actuators"):
        for node in nodes[path]:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                checks += 1
                assert node.func.attr != "sleep", f"{path}:{node.lineno}: waiting is a value"
    assert checks


def test_no_plan_knows_the_version_of_the_operator(root: Path, nodes: Mapping[Path, list[ast.AST]]) -> None:
    """Otherwise pods would roll for each new one."""
    checks = 0
    for path in sources(root, *PURE, "actuators"):
        names = {node.name for node in nodes[path] if isinstance(node, ast.alias)}
        checks += 1
        assert "__version__" not in names, path
    assert checks


def test_the_engine_names_no_product(root: Path) -> None:
    """What is special about one stands in its record."""
    external = {name for kind in EXTERNAL_KINDS for name in (kind.project, kind.operator, kind.group) if name}
    products = {kind.kind for kind in SERVICE_KINDS} | external | {"Galera", "OVN", "Ceph", "c5c3"}
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, products))})\b", re.IGNORECASE)
    lines = [line for path in sources(root, "runtime") for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if pattern.search(line)] == []
