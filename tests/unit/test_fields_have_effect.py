"""Each field of each kind does something, or the resource says that it does nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import partial

import pytest
from pydantic.alias_generators import to_snake

from openstack_operator.plan import Service, key
from openstack_operator.registry import SERVICES
from tests.fields import CLOUDS, HANDED_ON, ROOT, own_fields
from tests.shared_results import SharedResults
from tests.toggling import LISTED, child_of_template, complete, is_end, is_listed, spec_schema, toggled

KINDS = {each.resource.handle: each for each in SERVICES}
pytestmark = pytest.mark.seconds
Answers = Callable[[str], Mapping[str, Mapping[str, str]]]


@pytest.fixture
def answers(shared_results: SharedResults) -> Answers:
    """Return what other values of the fields of a kind are answered with, by path and answer."""
    return lambda handle: shared_results(f"toggled-{handle}", partial(toggled, KINDS[handle]))


@pytest.mark.parametrize("service", KINDS.values(), ids=KINDS)
def test_no_field_is_ignored_in_silence(service: Service, answers: Answers) -> None:
    role, lists = service.resource.role, ("satisfied", "elsewhere")
    silent = [path for path, of_field in answers(service.resource.handle).items() if "silent" in of_field]
    assert [path for path in silent if not any(is_listed(name, role, path) for name in lists)] == []


@pytest.mark.parametrize("service", KINDS.values(), ids=KINDS)
def test_each_field_has_an_effect_in_some_resource(service: Service, answers: Answers) -> None:
    role, lists = service.resource.role, ("satisfied", "elsewhere", "never", "coupled")
    idle = {
        path: of_field
        for path, of_field in answers(service.resource.handle).items()
        if not {"effect", "refused"} & of_field.keys()
    }
    assert {
        path: of_field for path, of_field in idle.items() if not any(is_listed(it, role, path) for it in lists)
    } == {}


def test_no_entry_of_a_list_is_stale(answers: Answers) -> None:
    """An entry is needed where a field of that name would fail without it."""
    stale = {}
    for name in ("satisfied", "elsewhere", "never", "coupled"):
        for end in LISTED[name]:
            of_fields = [
                entry
                for service in SERVICES
                for path, entry in answers(service.resource.handle).items()
                if is_end(end, service.resource.role, path)
            ]
            if not any("silent" in each or not {"effect", "refused"} & each.keys() for each in of_fields):
                stale[f"{name}.{end}"] = [sorted(each) for each in of_fields]
    assert stale == {}


def test_fields_that_act_elsewhere_have_tests() -> None:
    """Each entry names a test that exists, and that writes the field, itself or by a function of its module."""
    wrong = {}
    for field, (_, test) in LISTED["elsewhere"].items():
        source = _source(test)
        name = [part for part in field.removesuffix(".name").split(".") if part.isidentifier()][-1]
        if not re.search(rf"\b({name}|{to_snake(name)})\b", source):
            wrong[field] = f"{test} does not write {name}" if source else f"there is no {test}"
    assert wrong == {}


def _source(test: str) -> str:
    """Return the text of a test, `file::function`, and of the functions of its module that it calls; empty for none."""
    path, _, name = test.partition("::")
    if not (ROOT / path).is_file():
        return ""
    text = (ROOT / path).read_text("utf-8")
    functions = {each.name: each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)}
    if name not in functions:
        return ""
    called = {each.id for each in ast.walk(functions[name]) if isinstance(each, ast.Name)}
    parts = [functions[name], *functions[name].decorator_list, *(functions[each] for each in called & {*functions})]
    return "\n".join(ast.get_source_segment(text, part) or "" for part in parts)


@pytest.mark.parametrize("kind", sorted(CLOUDS))
def test_a_cloud_hands_each_field_of_a_template_on(kind: str) -> None:
    """All of them at once: the rules of a template are those of the kind that it becomes."""
    cloud = next(each for each in SERVICES if each.resource.kind == kind)
    lost: list[str] = []
    for path in own_fields(cloud.resource):
        if not path.endswith(HANDED_ON):
            continue
        template = path.removesuffix(HANDED_ON)
        child = child_of_template(cloud, template, {})
        made = next(each.resource for each in SERVICES if each.resource.handle == key(child)[0])
        kind_of_openstack = next(each.resource for each in SERVICES if each.resource.role == made.role)
        written = complete(spec_schema(kind_of_openstack))
        expected = made.spec.model_validate(written)
        spec = made.spec.from_spec(child_of_template(cloud, template, written)["spec"])
        lost += [
            f"{template}.{name}" for name in type(spec).model_fields if getattr(spec, name) != getattr(expected, name)
        ]
    assert lost == []
