"""Small faults that `make mutants` puts into programs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from checks import mutants


def faulty(path: Path, source: str) -> set[str]:
    path.write_text(source, encoding="utf-8")
    return {mutant.source() for mutant in mutants.mutants_of(path)}


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("é = a == b\n", {"é = a != b\n"}),
        ("x = a not  in b\n", {"x = a in b\n"}),
        ("x = a is b\n", {"x = a is not b\n"}),
        ("x = island and b\n", {"x = island or b\n"}),
        ("x = not a\n", {"x = (a)\n"}),
        ("x = True\n", {"x = False\n"}),
        ("x: Literal[3] = 4\n", {"x: Literal[3] = 5\n"}),
        ("if a:\n    b(c)\n", {"if (not (a)):\n    b(c)\n", "if a:\n    pass\n"}),
        ('"""Words, 3 == 4."""\nx = "a < b"\n', set[str]()),
        ("if TYPE_CHECKING:\n    x = 1\n", set[str]()),
    ],
)
def test_faults_of_python(tmp_path: Path, source: str, faults: set[str]) -> None:
    assert faulty(tmp_path / "module.py", source) == faults


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        (
            '[ "$a" = "$b" ] && exit 1\n',
            {'[ "$a" != "$b" ] && exit 1\n', '[ "$a" = "$b" ] || exit 1\n', '[ "$a" = "$b" ] && exit 0\n'},
        ),
        (
            "if ! true; then [ $a -lt 3 ]; fi\n",
            {"if true; then [ $a -lt 3 ]; fi\n", "if ! true; then [ $a -ge 3 ]; fi\n"},
        ),
        ("# a && b\nname=value\n", set[str]()),
    ],
)
def test_faults_of_the_shell(tmp_path: Path, source: str, faults: set[str]) -> None:
    assert faulty(tmp_path / "program.sh", source) == faults


def test_a_sample_has_each_package_and_is_the_same_for_its_seed() -> None:
    sample = mutants.choose(8, seed=3)
    assert sample == mutants.choose(8, seed=3)
    assert sample != mutants.choose(8, seed=4)
    folders = [mutant.path.relative_to(mutants.ROOT / "src" / "openstack_operator").parts[0] for mutant in sample]
    assert folders == [package for package in mutants.PACKAGES for _ in range(2)]


@pytest.mark.parametrize("path", sorted((mutants.ROOT / "src" / "openstack_operator" / "kube").glob("*.py")), ids=str)
def test_a_fault_leaves_a_program_that_can_be_read(path: Path) -> None:
    for mutant in mutants.mutants_of(path):
        ast.parse(mutant.source())


def test_the_tests_of_a_module_come_first() -> None:
    tests = mutants.likely_tests(mutants.ROOT / "src" / "openstack_operator" / "kube" / "readiness.py")
    assert "tests/unit/test_kube.py" in tests
    tests = mutants.likely_tests(mutants.ROOT / "src" / "openstack_operator" / "agents" / "etcd" / "start.sh")
    assert "tests/agents/test_etcd.py" in tests
