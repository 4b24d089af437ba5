"""Small faults that `make mutants` puts into programs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tools.checks import mutants
from tools.checks.likely_tests import LIKELY

pytestmark = pytest.mark.seconds

SOURCE = mutants.ROOT / "src" / "openstack_operator"


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
        ("@dataclass(frozen=True)\nclass A:\n    b: int\n", set[str]()),
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
    count = 2 * len(mutants.PACKAGES)
    sample = mutants.choose(count, seed=3)
    assert sample == mutants.choose(count, seed=3)
    assert sample != mutants.choose(count, seed=4)
    folders = [mutant.path.relative_to(mutants.ROOT / "src" / "openstack_operator").parts[0] for mutant in sample]
    assert folders == [package for _ in range(2) for package in mutants.PACKAGES]


@pytest.mark.parametrize("path", sorted((mutants.ROOT / "src" / "openstack_operator" / "kube").glob("*.py")), ids=str)
def test_a_fault_leaves_a_program_that_can_be_read(path: Path) -> None:
    for mutant in mutants.mutants_of(path):
        ast.parse(mutant.source())


def first(path: Path) -> mutants.Mutant:
    return next(iter(mutants.mutants_of(path)))


def likely(fault: mutants.Mutant) -> list[str]:
    return mutants.tests_of(fault.path, fault.definition())


def test_the_tests_of_a_module_come_first() -> None:
    tests = likely(first(SOURCE / "kube" / "readiness.py"))
    assert tests[0] == "tests/unit/kube/test_kube.py"
    assert tests[-1] == "tests/cases"
    assert len(tests) <= LIKELY + 1
    tests = likely(first(SOURCE / "agents" / "etcd" / "start.sh"))
    assert tests[:2] == ["tests/agents/test_etcd.py", "tests/unit/services/test_etcd.py"]
    # Texts of programs are part of cases, which notice any change of them, also one that does nothing.
    assert "tests/cases" not in tests
    # Where no file has the name of the module, those that use what it defines.
    assert "tests/unit/test_components.py" in likely(first(SOURCE / "kube" / "resources.py"))
    # A topic has one file of tests for several modules.
    assert "tests/unit/kube/test_pod_causes.py" in likely(first(SOURCE / "kube" / "pod_admission.py"))
    # And first of those, the ones that use the function with the fault.
    objects = mutants.mutants_of(SOURCE / "kube" / "objects.py")
    fault = next(each for each in objects if each.definition() == "owner_path")
    assert "tests/unit/kube/test_field_paths.py" in likely(fault)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A checkout in which a test of one module finds no fault, and one of another does."""
    for name, source in {
        "src/openstack_operator/plan/one.py": "NUMBER = 1\n",
        "tests/noticing.py": "from one import NUMBER\ndef test_it() -> None:\n    assert NUMBER == 1\n",
        "tests/careless.py": "def test_it() -> None:\n    pass\n",
        "tests/failing.py": "def test_it() -> None:\n    assert False\n",
        "tests/hanging.py": "from one import NUMBER\ndef test_it() -> None:\n    while NUMBER == 2:\n        pass\n",
        "conftest.py": "import sys\nsys.path.insert(0, 'src/openstack_operator/plan')\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    return tmp_path


def tried(
    copy: Path, said: list[str], monkeypatch: pytest.MonkeyPatch, *tests: str, budget: float = 1_000_000
) -> mutants.Run:
    """A run over the one fault of such a checkout."""
    monkeypatch.setattr(mutants, "ROOT", copy)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def tests_of(path: Path, definition: str) -> list[str]:
        return [f"tests/{each}.py" for each in tests]

    monkeypatch.setattr(mutants, "tests_of", tests_of)
    path = copy / "src/openstack_operator/plan/one.py"
    run = mutants.Run(list(mutants.mutants_of(path)), budget, said.append)
    run.work(copy)
    run.summary(7)
    assert path.read_text() == "NUMBER = 1\n"
    return run


def test_each_result_is_written_as_soon_as_it_is_known(
    copy: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried(copy, said, monkeypatch, "careless", "noticing")
    fault = "src/openstack_operator/plan/one.py:1: `1` → `2`"
    assert re.fullmatch(rf"\[1, \d+ s\] {re.escape(fault)}: noticed by tests/noticing.py::test_it\n", said[0])
    assert re.fullmatch(r"1 of 1 faults noticed, \d+ s of CPU, seed 7\n", said[1])


def test_an_unnoticed_fault_is_repeated_at_the_end_with_its_tests(
    copy: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried(copy, said, monkeypatch, "careless")
    assert said[0].endswith("`1` → `2`: NOT NOTICED\n")
    assert said[1].endswith("NOT NOTICED src/openstack_operator/plan/one.py:1: `1` → `2` by tests/careless.py\n")
    assert said[2].startswith("0 of 1 faults noticed")


def test_a_fault_that_makes_a_test_run_for_ever_is_noticed(
    copy: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "CPU_PATIENCE", 3)
    tried(copy, said, monkeypatch, "hanging")
    assert ": noticed by " in said[0]


def test_a_file_that_fails_without_a_fault_is_left_out(
    copy: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tried(copy, said, monkeypatch, "failing", "noticing")
    assert run.failing == {"tests/failing.py::test_it"}
    assert said[0].endswith(": noticed by tests/noticing.py::test_it\n")
    assert said[1] == "fails without a fault, and its file was left out: tests/failing.py::test_it\n"


def test_no_fault_is_tried_when_the_cpu_is_spent(copy: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tried(copy, said, monkeypatch, "noticing", budget=0)
    assert [line.partition(",")[0] for line in said] == ["0 of 0 faults noticed"]
