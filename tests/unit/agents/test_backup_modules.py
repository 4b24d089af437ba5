"""Programs of backups are one text each: a name that two of their modules define would be that of the last one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from openstack_operator import agents
from openstack_operator.services.backup.pods import modules

_REPOSITORY = (
    "database",
    "physical_backup",
    "manifest",
    "contents",
    "restore",
    "store",
    "fetch",
    "verify",
    "images",
    "images_restore",
    "archive",
    "replay",
    "retention",
    "pool",
    "pool_restore",
    "schema_restore",
)
_ALONE = ("northbound", "northbound_restore", "identity", "rbd")
PROGRAMS = [*((name, True) for name in _REPOSITORY), *((name, False) for name in _ALONE)]


def names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines."""
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Assign():
                for target in node.targets:
                    yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass


@pytest.mark.parametrize(("program", "uses_repository"), PROGRAMS)
def test_modules_of_a_program_share_no_name(program: str, *, uses_repository: bool) -> None:
    counts = Counter[str]()
    for file in modules(program, uses_repository=uses_repository):
        counts.update(set(names(ast.parse(agents.text(file)))))
    assert not [name for name, count in counts.items() if count > 1]


@pytest.mark.parametrize(("program", "uses_repository"), PROGRAMS)
def test_a_program_has_all_modules_that_it_imports(program: str, *, uses_repository: bool) -> None:
    files = modules(program, uses_repository=uses_repository)
    missing = [
        (file, name)
        for number, file in enumerate(files)
        for name in re.findall(r"^from \.(\w+) import", agents.text(file), re.MULTILINE)
        if f"backup/{name}.py" not in files[:number]
    ]
    assert missing == []
