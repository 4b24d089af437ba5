"""What is wrong with a resource made from a template is said where the user wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.kube.objects import refused_of_owner
from openstack_operator.kube.readiness import child_verdict, judge
from openstack_operator.plan import SpecError

MADE: dict[str, Any] = kube.from_field(
    {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "Nova", "metadata": {"name": "nova"}},
    "spec.services.nova",
    {"region": "spec.region", "mechanism": "spec.global.networkBackend"},
)


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("spec.config.a.b", "spec.services.nova.config.a.b"),
        ("spec.cells[0].name", "spec.services.nova.cells[0].name"),
        ("spec.cells[0]", "spec.services.nova.cells[0]"),
        ("spec", "spec.services.nova"),
        ("spec.region", "spec.region"),
        ("spec.mechanism", "spec.global.networkBackend"),
        ("spec.regionOf.x", "spec.services.nova.regionOf.x"),
        ("metadata.name", None),
    ],
)
def test_a_path_is_where_the_owner_says_it(path: str, written: str | None) -> None:
    assert kube.owner_path(MADE, path) == written


def test_a_field_of_no_template_has_no_owner_path() -> None:
    assert kube.owner_path({"metadata": {}}, "spec.a") is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            SpecError("Nova/nova spec.cells[0].name", "too long; spec.region: immutable; spec.api: not so"),
            "spec.services.nova.cells[0].name: too long; spec.region: immutable; spec.services.nova.api: not so",
        ),
        (SpecError("Nova/nova spec", "set one of both"), "spec.services.nova: set one of both"),
        (SpecError("Nova/nova", "belongs to another one"), "Nova/nova: belongs to another one"),
        (SpecError("Nova/nova metadata.name", "no name"), "Nova/nova metadata.name: no name"),
    ],
)
def test_a_refusal_names_the_fields_of_the_owner(error: SpecError, told: str) -> None:
    """A rule that only the resource's own definition has, as the API server says it."""
    assert str(refused_of_owner(MADE, error)) == told
    assert refused_of_owner({"metadata": {}}, error) is error


def test_the_owners_condition_names_its_own_fields() -> None:
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "InvalidSpec",
        "message": "spec.config.database.connection: set by the operator; spec.region: no region",
    }
    live = {**MADE, "status": {"conditions": [ready]}}
    assert judge(live).message == (
        "Nova/nova: spec.services.nova.config.database.connection: set by the operator; spec.region: no region"
    )
    assert child_verdict(live).message == f"Nova/nova: {ready['message']}"
