"""Each default of a model is in its definition: as a `default`, or in words where a template has none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast, get_args, get_origin

import pytest
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from openstack_operator.api import Model, Resource, crd
from openstack_operator.api.fields import image_object
from openstack_operator.registry import RESOURCES

EMPTY = (None, "", [], {})
"""Defaults that are nothing: what is unset is the same."""


NOTHING: Any = object()


def inner_model(annotation: Any) -> tuple[type[Model] | None, str]:
    """The model in a type (`X`, `X | None`, `list[X]`, `dict[str, X]`, annotated or not), and where its schema is."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation, ""
    below = {list: "items", dict: "additionalProperties"}.get(cast("Any", get_origin(annotation)), "")
    for argument in get_args(annotation):
        model, where = inner_model(argument)
        if model:
            return model, below or where
    return None, ""


def plain(value: Any) -> Any:
    """A default as JSON has it, without entries that are nothing."""
    if isinstance(value, dict):
        entries = {name: plain(entry) for name, entry in cast("dict[str, Any]", value).items()}
        return {name: entry for name, entry in entries.items() if entry not in EMPTY}
    if isinstance(value, list):
        return [plain(entry) for entry in cast("list[Any]", value)]
    return value


def said(schema: Mapping[str, Any]) -> Any:
    """What a definition says of a field's own default; NOTHING where it says none."""
    if "default" in schema:
        return schema["default"]
    words = re.search(r"(?:^| )Default: (.*)\.$", schema.get("description", ""))
    if words is None:
        return NOTHING
    # A number or a text has no type there.
    return words[1] if schema.get("type", "string") == "string" else json.loads(words[1])


def names_there(model: type[Model]) -> dict[str, str]:
    """What kinds of c5c3's groups call fields, by their names here."""
    return {ours: theirs for base in model.__mro__ for ours, theirs in base.__dict__.get("c5c3_names", {}).items()}


def fields(model: type[Model], schema: Mapping[str, Any]) -> Iterator[tuple[str, FieldInfo, str, Mapping[str, Any]]]:
    """Each field of a model: its attribute, what it is, its name in the definition, and its schema there."""
    theirs = names_there(model)
    for attribute, info in model.model_fields.items():
        name = info.alias or attribute
        name = theirs[name] if theirs.get(name) in schema["properties"] else name
        yield attribute, info, name, schema["properties"][name]


def is_said(default: Any, schema: Mapping[str, Any], above: Any = NOTHING) -> bool:
    """Whether a reader of a definition knows a default: by what is said of the object that the field is in (`above`),
    or else of the field, or else of each of its own fields.
    """
    own = said(schema) if above is NOTHING else above
    if not isinstance(default, Model):
        json_like = plain(to_jsonable_python(default, by_alias=True))
        if isinstance(json_like, str) and schema.get("type") == "object":
            json_like = image_object(json_like)
        return json_like in EMPTY or (own is not NOTHING and plain(own) == json_like)
    entries: dict[str, Any] = {} if own is NOTHING else own
    return all(
        is_said(getattr(default, attribute), field, entries.get(name, NOTHING))
        for attribute, _, name, field in fields(type(default), schema)
    )


def unsaid(model: type[Model], schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Paths of fields whose default a definition does not say, or says otherwise."""
    for _, info, name, field in fields(model, schema):
        if not info.is_required() and not is_said(info.get_default(call_default_factory=True), field):
            yield f"{path}.{name}"
        inner, where = inner_model(info.annotation)
        if inner:
            yield from unsaid(inner, field[where] if where else field, f"{path}.{name}{'[]' if where else ''}")


def definition(resource: Resource[Any]) -> dict[str, Any]:
    return crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.crd_name)
def test_each_default_is_said(resource: Resource[Any]) -> None:
    schema = definition(resource)
    assert list(unsaid(resource.spec, schema["spec"], "spec")) == []
    if resource.status:
        assert list(unsaid(resource.status, schema["status"], "status")) == []


CUT = {
    "a word of a template": ("spec.keystone.replicas", None),
    "another value": ("spec.keystone.replicas", "Number of pods. Default: 2."),
    "what is said below the second level": ("spec.keystone.networkPolicies.enabled", None),
    "what is said without any other word": ("spec.keystone.api.autoscaling.minReplicas", None),
    "an object": ("spec.keystone.credentialKeys", "Keys."),
    "an object with another value": ("spec.keystone.client", 'The pod. Default: {"replicas": 2}.'),
    "an entry of a list": ("spec.keystone.dependsOn[].condition", None),
    "a list": ("spec.neutron.ml2.mechanismDrivers", None),
    "a reference": ("spec.nova.glanceRef", None),
}


@pytest.mark.parametrize(("path", "words"), CUT.values(), ids=CUT)
def test_a_default_that_is_not_said_is_found(path: str, words: str | None) -> None:
    """Its own field is named, and the objects whose default it is a part of."""
    resource = next(each for each in RESOURCES if each.kind == "OpenStackControlPlane")
    schema = definition(resource)["spec"]
    at(schema, path)["description"] = words or ""
    found = list(unsaid(resource.spec, schema, "spec"))
    assert path in found
    assert all(path.startswith(f"{each}.") for each in found if each != path)


def test_a_default_that_a_schema_lost_is_found() -> None:
    resource = next(each for each in RESOURCES if each.kind == "Keystone")
    schema = definition(resource)["spec"]
    del at(schema, "spec.fernet.maxActiveKeys")["default"]
    # Each of the two rings has its own schema of it.
    assert list(unsaid(resource.spec, schema, "spec")) == ["spec.fernet.maxActiveKeys"]


def at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of a field."""
    for part in re.findall(r"[^.\[\]]+|\[\]", path.removeprefix("spec.")):
        schema = schema["items"] if part == "[]" else schema["properties"][part]
    return schema
