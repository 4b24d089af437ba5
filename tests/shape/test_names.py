"""kubectl reaches the kind that is meant: names are unique, and documented commands are unambiguous."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.api import Resource, crd
from openstack_operator.registry import EXTERNAL_KINDS, RESOURCES

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(
    [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("*.md"),
        *ROOT.glob("*/README.md"),
        *ROOT.glob("tools/*/README.md"),
        *ROOT.glob("deploy/**/*.yaml"),
    ]
)
MODULES = sorted(path for folder in ("src", "tools") for path in (ROOT / folder).rglob("*.py"))
VERBS = "get|describe|delete|edit|patch|wait|annotate|label|explain|scale"
COMMAND = re.compile(rf"kubectl(?: -n \S+)? (?:{VERBS}) [^`\n]*")


def names(resource: Resource[Any]) -> list[str]:
    """Every name kubectl knows a kind by."""
    found = crd(resource)["spec"]["names"]
    return [*dict.fromkeys((found["plural"], found["singular"])), *found["shortNames"]]


def ambiguous() -> set[str]:
    """Names of several groups' kinds, those of other operators among them."""
    theirs = [name for kind in set(EXTERNAL_KINDS) for name in {kind.plural, kind.kind.lower()}]
    seen = Counter([*(name for each in RESOURCES for name in names(each)), *theirs])
    return {name for name, count in seen.items() if count > 1}


def test_no_two_kinds_installed_by_default_share_a_name() -> None:
    seen = Counter(name for each in RESOURCES if not each.on_request for name in names(each))
    assert [name for name, count in seen.items() if count > 1] == []


def test_every_kind_has_a_name_that_no_other_has() -> None:
    seen = Counter(name for each in RESOURCES for name in names(each))
    for each in RESOURCES:
        assert each.unique_names
        assert all(seen[name] == 1 for name in each.unique_names), each.crd_name


def unqualified(command: str) -> list[str]:
    """Ambiguous names a command is called with: of kinds, not of the objects after them."""
    words = re.sub(r" -(?:n|l|o|f|c) \S+| -\S+", "", command).split()
    verb = next(index for index, word in enumerate(words) if word in VERBS.split("|"))
    what = words[verb + 1] if len(words) > verb + 1 else ""
    path = "." if words[verb] == "explain" else "/"
    found = [name.partition(path)[0] for name in what.split(",")]
    # The path of a field of a qualified kind begins after its group, which is not looked for here.
    whole = words[verb] == "explain" and any(what.startswith(f"{each.crd_name}.") for each in RESOURCES)
    return [] if whole else [name for name in found if name in AMBIGUOUS]


AMBIGUOUS = ambiguous()
CALLS = {"kubectl", "items", "exists"}


def test_an_ambiguous_resource_name_in_a_command_is_found() -> None:
    assert {"nova", "novas", "keystone", "mariadb", "users"} <= AMBIGUOUS
    assert not {"oscp", "osnova", "c5nova", "pki"} & AMBIGUOUS
    assert unqualified("kubectl describe nova nova -n openstack") == ["nova"]
    assert unqualified("kubectl explain nova.spec.compute") == ["nova"]
    assert unqualified("kubectl explain novas.openstack.k8s.io.spec.compute") == []
    assert unqualified("kubectl annotate -n openstack mariadb/mariadb x=y") == ["mariadb"]
    assert unqualified("kubectl get novas.openstack.k8s.io nova") == []
    assert unqualified("kubectl get pods,keystones") == ["keystones"]


def test_a_documented_command_says_which_group() -> None:
    found = [(path.name, each) for path in PAGES for each in COMMAND.findall(path.read_text(encoding="utf-8"))]
    assert [(name, command) for name, command in found if unqualified(command)] == []


def parsed(paths: Iterable[Path]) -> Iterator[ast.AST]:
    for path in paths:
        yield from _nodes(path)


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """Calls and texts of a module, which is all that is looked at here."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(node for node in nodes if isinstance(node, ast.Call | ast.Constant | ast.JoinedStr))


def text_of(node: ast.AST) -> str | None:
    """The text of a literal, an f-string with what it puts in as `{expression}` without spaces; None for others."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(_part, parts))
        case _:
            return None


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value).replace(' ', '')}}}"
    return text_of(node) or ""


QUALIFIED = {
    "{kind.full_name}": "runtime.kubernetes.kinds.Kind.full_name has the group",
    "{full_names}": "runtime.cache.cache joins names by Kind.full_name",
}
"""What a program may put in where a command names a kind, each with the reason why only one kind is called so."""


def unclear(text: str) -> list[str]:
    """Names of kinds in the commands of a text that several groups may have."""
    commands = COMMAND.findall(text)
    kinds = [each[1] for each in map(KIND_OF.search, commands) if each]
    return [*(name for each in commands for name in unqualified(each)), *(k for k in kinds if k not in QUALIFIED)]


KIND_OF = re.compile(rf"(?:{VERBS}) (?:-\S+ (?:\S+ )?)*([^\s/]*{{[^\s/]*)")
"""A placeholder where the kind stands."""


def test_an_unclear_name_in_an_f_string_is_found() -> None:
    def read(source: str) -> list[str]:
        return unclear(text_of(ast.parse(source, mode="eval").body) or "")

    assert read('f"see: kubectl get {kind.lower()} {name} -n {namespace}"') == ["{kind.lower()}"]
    assert read('f"see: kubectl get " f"{kinds} -n {namespace}"') == ["{kinds}"]
    assert read('f"see: kubectl -n {namespace} describe {a + b}/{name}"') == ["{a+b}"]
    assert read('f"see: kubectl get -n {namespace} {kind}"') == ["{kind}"]
    assert read('f"see: kubectl get nova {name}"') == ["nova"]
    assert read('f"see: kubectl get {kind.full_name} {name}; kubectl get osnova {name}"') == []
    assert read('f"see: kubectl annotate secret {name} -n {namespace}"') == []


@pytest.mark.seconds
def test_a_command_a_program_hints_at_says_which_group() -> None:
    nodes = [(path, node) for path in MODULES for node in parsed([path])]
    texts = [(path.name, text) for path, node in nodes if (text := text_of(node)) is not None]
    assert [(name, kind) for name, text in texts for kind in unclear(text)] == []


def test_a_hint_may_put_in_only_what_some_program_does() -> None:
    source = [text for node in parsed(MODULES) if isinstance(node, ast.JoinedStr) and (text := text_of(node))]
    assert [name for name in QUALIFIED if not any(f" {name} " in text for text in source)] == []


OBJECT = re.compile(r"`([a-z][a-z.]*)/[\w…{}-]+`")
"""An object in the prose of a page, as kubectl takes it."""
BUILT_IN = {"deploy", "ds", "sts", "job", "pvc"}


def test_an_object_a_page_names_is_one_of_a_kind() -> None:
    page = (ROOT / "docs" / "reference" / "conditions.md").read_text(encoding="utf-8")
    cells = [cell for line in page.splitlines() if line.startswith("| ") for cell in line.split(" | ")]
    found = [kind for cell in cells for kind in OBJECT.findall(cell)]
    clear = (
        {name for each in RESOURCES for name in names(each)} | {kind.kind.lower() for kind in EXTERNAL_KINDS} | BUILT_IN
    )
    assert len(found) > 50
    assert {kind for kind in found if kind in AMBIGUOUS} == set()
    assert {kind for kind in found if kind not in clear} == set()


@pytest.mark.seconds
def test_a_call_of_kubectl_says_which_group() -> None:
    """The first word after the verb of `….kubectl("get", "keystones")`, and the first of `….items("keystones", …)`."""
    checks = 0
    for node in parsed([*MODULES, *(ROOT / "tests" / "e2e").rglob("*.py")]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if node.func.attr == "kubectl" and texts and texts[0] in VERBS.split("|"):
                checks += 1
                assert unqualified(" ".join(["kubectl", *texts])) == [], ast.unparse(node)
            elif node.func.attr != "kubectl" and len(texts) > 1:
                checks += 1
                assert texts[0].partition("/")[0] not in AMBIGUOUS, ast.unparse(node)
    assert checks
