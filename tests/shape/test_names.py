"""kubectl reaches the kind that is meant: names are unique, and documented commands are unambiguous."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from openstack_operator.api import Resource, crd
from openstack_operator.catalogue import RESOURCES
from openstack_operator.runtime.kinds import OTHERS

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(
    [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *ROOT.glob("deploy/**/*.yaml")]
)
MODULES = sorted(
    path
    for folder in ("src", "cloud", "chaos", "bench", "operators", "localcluster", "checks")
    for path in (ROOT / folder).rglob("*.py")
)
VERBS = "get|describe|delete|edit|patch|wait|annotate|label|explain|scale"
COMMAND = re.compile(rf"kubectl(?: -n \S+)? (?:{VERBS}) [^`\n]*")


def names(resource: Resource[Any]) -> list[str]:
    """Every name kubectl knows a kind by."""
    found = crd(resource)["spec"]["names"]
    return [*dict.fromkeys((found["plural"], found["singular"])), *found["shortNames"]]


def ambiguous() -> set[str]:
    """Names of several groups' kinds, those of other operators among them."""
    theirs = [name for kind in set(OTHERS) for name in {kind.plural, kind.kind.lower()}]
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


def test_what_is_called_ambiguous() -> None:
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
        yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def test_a_command_a_program_hints_at_says_which_group() -> None:
    texts = [node.value for node in parsed(MODULES) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    assert [command for text in texts for command in COMMAND.findall(text) if unqualified(command)] == []


def test_a_call_of_kubectl_says_which_group() -> None:
    """The first word after the verb of `….kubectl("get", "keystones")`, and the first of `….items("keystones", …)`."""
    for node in parsed([*MODULES, *(ROOT / "tests" / "e2e").rglob("*.py")]):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            texts = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            if node.func.attr == "kubectl" and texts and texts[0] in VERBS.split("|"):
                assert unqualified(" ".join(["kubectl", *texts])) == [], ast.unparse(node)
            elif node.func.attr != "kubectl" and len(texts) > 1:
                assert texts[0].partition("/")[0] not in AMBIGUOUS, ast.unparse(node)
