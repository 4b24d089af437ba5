"""An upgrade of the operator: objects that earlier versions stored stay what they are, and release notes say which pods
it replaces.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from openstack_operator.api import Model, RenamedSinceRelease, Resource, crd
from openstack_operator.cli.offline.manifest import Checker
from openstack_operator.cli.offline.rules import evaluator
from openstack_operator.registry import RESOURCES
from tools.publish import released
from tools.publish.definitions import Definitions, narrowed
from tools.publish.released import Change

_DEFINITION: dict[str, Any] = {
    "metadata": {"name": "examples.openstack.k8s.io"},
    "spec": {
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "schema": {
                    "openAPIV3Schema": {
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "maximum": 5, "default": 1},
                                    "mode": {"type": "string", "enum": ["a", "b"]},
                                    "apis": {"type": "array", "items": {"type": "object", "properties": {}}},
                                },
                            }
                        }
                    }
                },
            }
        ]
    },
}


def _changed(*path: str, **values: Any) -> Definitions:
    definition = copy.deepcopy(_DEFINITION)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for step in path:
        schema = schema[step]
    schema.update(values)
    for name in [name for name, value in values.items() if value is None]:
        del schema[name]
    return Definitions.of([definition])


@pytest.fixture(scope="module")
def found() -> list[Change]:
    return released.changes(released.last())


def test_all_pods_that_an_upgrade_replaces_have_a_reason(found: list[Change]) -> None:
    lines = released.missing(found)
    assert not lines, f"an upgrade does this to a running cloud: say why in {released.REASONS.name}\n" + "\n".join(
        lines
    )


def test_every_reason_is_of_something_that_changes(found: list[Change]) -> None:
    assert not released.stale(found), f"remove these from {released.REASONS.name}"


@pytest.mark.parametrize("version", released.versions())
def test_objects_that_an_earlier_version_stored_are_accepted(version: str) -> None:
    checker = Checker(RESOURCES, evaluator())
    for sample, objects in released.objects_of(version).items():
        problems = [problem for obj in objects for problem in checker.check(obj).problems]
        assert not problems, f"{sample}: what {version} accepted is refused, or a field of it would be dropped"


def test_data_of_versions_are_small() -> None:
    assert all(path.stat().st_size < 500_000 for path in released.DATA.rglob("*.json"))


def test_changed_and_removed_pods_are_named_and_new_ones_are_not() -> None:
    old = {"full": {"Deployment/a": "1", "Deployment/b": "1", "StatefulSet/c itself": "1", "Deployment/d": "1"}}
    new = {"full": {"Deployment/a": "2", "StatefulSet/c itself": "2", "Deployment/d": "1", "Deployment/e": "1"}}
    texts = released.replaced(old, new)
    assert {name: text.partition(" (")[0] for name, text in texts.items()} == {
        "Deployment/a": "pods are replaced",
        "Deployment/b": "is removed",
        "StatefulSet/c itself": "cannot be changed by an apply: Kubernetes refuses it",
    }


def test_notes_list_what_is_replaced_by_reason_and_need_one_for_each() -> None:
    changes = [Change("Deployment/a", "", "another timeout"), Change("Deployment/b", "", "another timeout")]
    assert "| `Deployment/a`, `Deployment/b` | another timeout |" in released.notes("0.1.0", changes)
    assert "replaces no pods" in released.notes("0.1.0", [])
    with pytest.raises(LookupError, match="Deployment/c: pods are replaced"):
        released.notes("0.1.0", [*changes, Change("Deployment/c", "pods are replaced")])


def test_versions_that_lead_to_a_release_come_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released, "versions", lambda: ["0.1.0-dev", "0.1.0", "0.10.0-dev"])
    assert released.last("0.1.0") == "0.1.0-dev"
    assert released.last("0.2.0") == "0.1.0"
    with pytest.raises(LookupError):
        released.last("0.0.9")


@pytest.mark.parametrize(
    ("path", "values", "expected"),
    [
        ((), {"required": ["mode"]}, {"spec.mode": "is required now"}),
        ((), {"required": ["size"]}, {}),
        (("properties",), {"mode": None}, {"spec.mode": "is gone: the API server drops it with the next write"}),
        (("properties",), {"more": {"type": "string"}}, {}),
        (("properties", "size"), {"maximum": 4}, {"spec.size": "has maximum 4, and had 5"}),
        (("properties", "size"), {"maximum": 6}, {}),
        (("properties", "size"), {"minimum": 1}, {"spec.size": "has minimum 1, and had none"}),
        (("properties", "size"), {"type": "string"}, {"spec.size": "takes string, and took integer"}),
        (("properties", "size"), {"type": None, "x-kubernetes-int-or-string": True}, {}),
        (("properties", "mode"), {"enum": ["a", "c"]}, {"spec.mode": "takes no b now"}),
        (("properties", "mode"), {"enum": None}, {}),
        (("properties", "mode"), {"description": "Another text."}, {}),
        (
            ("properties", "apis", "items"),
            {"x-kubernetes-validations": [{"rule": "has(self.a)", "message": "set a"}]},
            {"spec.apis[]": "has a new rule: has(self.a)"},
        ),
    ],
)
def test_definitions_that_take_less_are_named(
    path: tuple[str, ...], values: Mapping[str, Any], expected: Mapping[str, str]
) -> None:
    changes = narrowed(Definitions.of([_DEFINITION]), _changed(*path, **values))
    name = "examples.openstack.k8s.io/v1alpha1 "
    assert changes == {f"{name}{path}": text for path, text in expected.items()}


def test_a_version_that_is_not_served_any_more_is_named() -> None:
    old = Definitions.of([_DEFINITION])
    assert list(narrowed(old, Definitions({}, {})).values()) == ["is not served any more"]
    assert Definitions.read(old.write()) == old


class _Before(Model):
    """An example."""

    worker_count: int = 2
    """Number of workers."""


class _After(RenamedSinceRelease):
    """An example."""

    deprecated_names = {"workerCount": "workers"}

    workers: int | None = None
    """Number of workers."""


def _schema(model: type[Model]) -> Any:
    resource = Resource(kind="Example", plural="examples", spec=model)
    return crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


def test_a_field_that_was_renamed_is_read_by_either_name() -> None:
    assert _After.from_spec({"workerCount": 3}) == _After.from_spec({"workers": 3})
    fields = _schema(_After)["properties"]
    assert fields["workerCount"] == {
        **fields["workers"],
        "description": "Deprecated; write workers, which counts if both are set.",
    }


def test_a_stored_default_of_the_earlier_name_yields_to_the_new_name() -> None:
    stored_default = _schema(_Before)["properties"]["workerCount"]["default"]
    assert _After.from_spec({"workerCount": stored_default, "workers": 5}).workers == 5


def test_a_renamed_field_takes_no_default_in_the_definition() -> None:
    class WithDefault(RenamedSinceRelease):
        """An example."""

        deprecated_names = {"workerCount": "workers"}

        workers: int = 2
        """Number of workers."""

    with pytest.raises(TypeError, match="workers was workerCount"):
        _schema(WithDefault)
