"""Definitions as a whole: how large they are, and what they are made of."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from openstack_operator.api import Resource, crd, structural
from openstack_operator.api.schema import flat_schema
from openstack_operator.api.templates import has_templates
from openstack_operator.registry import RESOURCES

ANNOTATIONS = 262_144
"""Bytes that all annotations of an object may have (TotalAnnotationSizeLimitB), of which `kubectl apply` without
`--server-side` takes as many as the object has."""
MARGIN = 12_000
CLOUD = 500_000
"""Bytes of the definition of a cloud, which is applied by the server (decision 0084). etcd takes 1.5 MB."""
CLOUDS = ("OpenStackControlPlane", "ControlPlane")


def annotation(definition: dict[str, Any]) -> bytes:
    """What kubectl writes into the annotation: Go's JSON, which has other words for three characters."""
    text = json.dumps(definition, separators=(",", ":"), ensure_ascii=False)
    return re.sub("[&<>]", lambda found: f"\\u{ord(found[0]):04x}", text).encode()


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.crd_name)
def test_a_definition_fits_into_the_annotation_of_kubectl_apply(resource: Resource[Any]) -> None:
    """But that of a cloud, which is applied by the server."""
    assert len(annotation(crd(resource))) < (CLOUD if resource.kind in CLOUDS else ANNOTATIONS - MARGIN)


def described(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field at any depth by its path; `[]` stands for each entry of a list or a map, and is one, too."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        yield from described(field, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield f"{path}[]", schema[inner]
            yield from described(schema[inner], f"{path}[]")


LIMITS = (
    *("type", "enum", "required", "pattern", "minLength", "maxLength", "minimum", "maximum"),
    *("minItems", "maxItems", "minProperties", "maxProperties"),
)


def test_a_template_keeps_the_limits_of_each_field() -> None:
    """Except one that follows from another, and a pattern of names that many fields in groups of fields share."""
    (resource,) = (each for each in RESOURCES if each.kind == "OpenStackControlPlane")
    whole, lost = dict(described(flat_schema(resource.spec))), list[str]()
    short = dict(described({"properties": fields("OpenStackControlPlane")}))
    patterns = Counter(field["pattern"] for field in whole.values() if "pattern" in field)
    assert whole.keys() == short.keys()
    for path, field in whole.items():
        for limit in LIMITS:
            if field.get(limit) == short[path].get(limit) or follows(limit, field):
                continue
            in_group = path.count(".") + path.count("[]") > 2
            if not (limit == "pattern" and in_group and _is_of_names(field["pattern"], patterns)):
                lost.append(f"{path} {limit}")
    assert lost == []


def _is_of_names(pattern: str, patterns: Counter[str]) -> bool:
    return patterns[pattern] > 3 and not pattern.startswith("^[0-9]")


def follows(limit: str, field: dict[str, Any]) -> bool:
    """Whether a limit of a field says only what its pattern says, or a rule in words."""
    if limit == "minLength":
        return field[limit] == 1 and not re.search(field["pattern"], "")
    rules = field.get("x-kubernetes-validations", ())
    return limit == "pattern" and any("matches(" in rule["rule"] for rule in rules)


def test_a_template_says_what_its_defaults_are() -> None:
    schema = fields("OpenStackControlPlane")["mariadb"]["properties"]
    assert schema["storageSize"]["description"].endswith("Default: 10Gi.")
    assert "default" not in schema["storageSize"]


def test_a_template_says_defaults_of_what_is_cut_short() -> None:
    schema = fields("OpenStackControlPlane")["keystone"]["properties"]
    assert schema["replicas"]["description"].endswith(" Default: 1.")
    assert schema["networkPolicies"]["properties"]["enabled"]["description"].endswith(" Default: false.")
    assert schema["credentialKeys"]["description"].endswith(' Default: {"rotationSchedule": "@monthly"}.')
    # Its fields say it all.
    assert "Default" not in schema["fernet"]["description"]
    assert schema["fernet"]["properties"]["rotationSchedule"]["description"].endswith(" Default: 0 0 * * 0.")


def test_a_template_keeps_the_rules_of_its_own_values() -> None:
    schema = fields("OpenStackControlPlane")["mariadb"]["properties"]
    assert any("cannot shrink" in rule["message"] for rule in schema["storageSize"]["x-kubernetes-validations"])


def test_rules_that_services_share_are_left_to_their_kinds() -> None:
    def messages(schema: dict[str, Any]) -> str:
        return json.dumps(schema["expose"].get("x-kubernetes-validations", ""))

    assert "set gateway.parentRefs" in messages(fields("Glance"))
    assert "set gateway.parentRefs" not in messages(fields("OpenStackControlPlane")["glance"]["properties"])


def fields(kind: str) -> dict[str, Any]:
    resource = next(each for each in RESOURCES if each.kind == kind)
    schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema["properties"]["spec"]["properties"]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.crd_name)
def test_no_rule_says_a_thing_twice(resource: Resource[Any]) -> None:
    schema = json.dumps(crd(resource)["spec"]["versions"][0]["schema"])
    for rule in re.findall(r'"rule": "((?:[^"\\]|\\.)*)"', schema):
        assert not re.search(r"(!\(.{12,}\)) (?:&&|[|][|]) \1(?: |$)", rule), rule


def bounds_missing(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Fields that take a text, a list or a map of any size. How deep one without a schema is nested, and so how large
    it is, no definition can bound.
    """
    kind, is_free = schema.get("type"), schema.get("x-kubernetes-preserve-unknown-fields")
    # The format of a moment bounds it.
    if (kind == "string" and "enum" not in schema and "format" not in schema) or (is_free and kind is None):
        yield from () if "maxLength" in schema else (f"{path}: maxLength",)
    if kind == "array" or (is_free and kind is None):
        yield from () if "maxItems" in schema else (f"{path}: maxItems",)
    if "additionalProperties" in schema or is_free:
        yield from () if "maxProperties" in schema else (f"{path}: maxProperties",)
    for name, field in schema.get("properties", {}).items():
        yield from bounds_missing(field, f"{path}.{name}")
    for name, mark in (("additionalProperties", "*"), ("items", "[]")):
        if isinstance(inner := schema.get(name), dict):
            yield from bounds_missing(inner, f"{path}.{mark}")


@pytest.mark.security
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.crd_name)
def test_every_text_list_and_map_has_a_bound(resource: Resource[Any]) -> None:
    schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert not list(bounds_missing(schema["status"], "status"))
    # As they are before templates are cut short, which leave bounds to the kind they become.
    assert not list(bounds_missing(structural(resource.spec, as_c5c3=resource.as_c5c3), "spec"))
    if not has_templates(flat_schema(resource.spec, as_c5c3=resource.as_c5c3)):
        assert not list(bounds_missing(schema["spec"], "spec"))


@pytest.mark.security
@pytest.mark.parametrize("kind", ["OpenStackControlPlane", "ControlPlane"])
def test_a_cloud_bounds_what_is_in_no_template(kind: str) -> None:
    resource = next(each for each in RESOURCES if each.kind == kind)
    whole = flat_schema(resource.spec, as_c5c3=resource.as_c5c3)["properties"]
    own = {
        name: field for name, field in fields(kind).items() if not has_templates({"properties": {name: whole[name]}})
    }
    assert own
    assert not [missing for name, field in own.items() for missing in bounds_missing(field, name)]


def repeated(schema: dict[str, Any], path: str) -> Iterator[str]:
    """Fields without a schema whose every level managedFields repeat: what is not atomic, nor within what is."""
    if schema.get("x-kubernetes-map-type") == "atomic":
        return
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield path
    if schema.get("type") == "array" and schema.get("x-kubernetes-list-type") != "map":
        return
    for name, field in schema.get("properties", {}).items():
        yield from repeated(field, f"{path}.{name}")
    for name, mark in (("additionalProperties", "*"), ("items", "[]")):
        if isinstance(inner := schema.get(name), dict):
            yield from repeated(inner, f"{path}.{mark}")


@pytest.mark.security
@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.crd_name)
def test_no_depth_is_repeated_in_managed_fields(resource: Resource[Any]) -> None:
    schema = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert not list(repeated(schema, ""))


def test_a_bound_is_missing_where_there_is_none() -> None:
    text, free = {"type": "string"}, {"x-kubernetes-preserve-unknown-fields": True}
    schema = {
        "type": "object",
        "properties": {
            "a": text,
            "b": {"type": "array", "items": text},
            "c": {"type": "object", "additionalProperties": text},
            "d": free,
            "e": {**free, "type": "object"},
        },
    }
    assert sorted(bounds_missing(schema, "spec")) == [
        "spec.a: maxLength",
        "spec.b.[]: maxLength",
        "spec.b: maxItems",
        "spec.c.*: maxLength",
        "spec.c: maxProperties",
        "spec.d: maxItems",
        "spec.d: maxLength",
        "spec.d: maxProperties",
        "spec.e: maxProperties",
    ]
