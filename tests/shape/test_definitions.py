"""Definitions as a whole: how large they are, and what they are made of."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from openstack_operator.api import Resource, crd
from openstack_operator.catalogue import RESOURCES

ANNOTATIONS = 262_144
"""Bytes that all annotations of an object may have (TotalAnnotationSizeLimitB), of which `kubectl apply` takes as many
as the object has."""
MARGIN = 12_000


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.crd_name)
def test_a_definition_fits_into_the_annotation_of_kubectl_apply(resource: Resource[Any]) -> None:
    size = len(json.dumps(crd(resource), separators=(",", ":")).encode())
    assert size < ANNOTATIONS - MARGIN


def test_a_template_says_what_its_defaults_are() -> None:
    schema = fields("OpenStackControlPlane")["mariadb"]["properties"]
    assert schema["storageSize"]["description"].endswith("Default: 10Gi.")
    assert "default" not in schema["storageSize"]


def test_a_template_says_defaults_of_what_is_cut_short() -> None:
    schema = fields("OpenStackControlPlane")["keystone"]["properties"]
    assert schema["replicas"]["description"].endswith(" Default: 1.")
    assert schema["networkPolicies"]["properties"]["enabled"]["description"] == "Default: false."
    assert schema["credentialKeys"]["description"].endswith(' Default: {"rotationSchedule": "@monthly"}.')
    # Its fields say it all.
    assert "Default" not in schema["fernet"]["description"]
    assert schema["fernet"]["properties"]["rotationSchedule"]["description"].endswith(" Default: 0 0 * * 0.")


def test_a_template_keeps_the_rules_of_its_own_fields() -> None:
    schema = fields("OpenStackControlPlane")["mariadb"]["properties"]
    assert any("cannot shrink" in rule["message"] for rule in schema["storageSize"]["x-kubernetes-validations"])


def fields(kind: str) -> dict[str, Any]:
    resource = next(each for each in RESOURCES if each.kind == kind)
    schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema["properties"]["spec"]["properties"]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.crd_name)
def test_no_rule_says_a_thing_twice(resource: Resource[Any]) -> None:
    schema = json.dumps(crd(resource)["spec"]["versions"][0]["schema"])
    for rule in re.findall(r'"rule": "((?:[^"\\]|\\.)*)"', schema):
        assert not re.search(r"(!\(.{12,}\)) (?:&&|[|][|]) \1(?: |$)", rule), rule
