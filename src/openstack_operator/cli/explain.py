"""Descriptions of fields, from the same schema the API server has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..api import Resource, crd, default_text, split_default, with_default

Schema = Mapping[str, Any]


def explained(resources: Sequence[Resource[Any]], path: str) -> str:
    """Describe a kind or one of its fields in words: `nova`, `nova.cells.name`, `nova.status.cells`,
    `novas.openstack.k8s.io`.

    Raises LookupError naming the nearest names and the choices.
    """
    resource, fields = _kind(resources, re.sub(r"\[[^\[\]]*\]", "", path).strip("."))
    schema, place = _root(resource), resource.kind
    if fields and fields[0] in {"spec", "status", "metadata"}:
        place = f"{place}.{fields[0]}"
        schema = schema["properties"][fields.pop(0)]
    elif fields:
        schema = schema["properties"]["spec"]
    for field in fields:
        choices = _fields(schema)
        if field not in choices:
            raise LookupError(f"{place} has no field {field!r}; {_nearest(field, choices)}")
        schema, place = choices[field], f"{place}.{field}"
    return "\n".join([*_described(place, schema), *([] if "." in place else _elsewhere(resources, resource))])


def _kind(resources: Sequence[Resource[Any]], path: str) -> tuple[Resource[Any], list[str]]:
    """Return the kind that a path begins with, and the fields after it. If kinds of two groups have that name, the
    first one counts.
    """
    names: dict[str, Resource[Any]] = {}
    for resource in resources:
        for name in _names(resource):
            names.setdefault(name, resource)
    lowered = path.lower()
    matches = [name for name in names if lowered == name or lowered.startswith(f"{name}.")]
    if not matches:
        start = path.partition(".")[0]
        kinds = list(dict.fromkeys(resource.kind for resource in resources))
        close = difflib.get_close_matches(start.lower(), names, n=3)
        nearest = [names[name].kind for name in close]
        raise LookupError(f"there is no kind {start!r}; {_choices(nearest, kinds)}")
    name = max(matches, key=len)
    rest = path[len(name) + 1 :]
    return names[name], rest.split(".") if rest else []


def _names(resource: Resource[Any]) -> Iterable[str]:
    """Return the names that kubectl accepts for the kind, in lower case."""
    plain = (resource.kind, resource.plural, *resource.unique_names)
    full = (f"{name}{version}.{resource.group}" for name in plain for version in ("", f".{resource.version}"))
    return [name.lower() for name in (*plain, *full)]


def _root(resource: Resource[Any]) -> Schema:
    return crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def _elsewhere(resources: Sequence[Resource[Any]], resource: Resource[Any]) -> list[str]:
    namesakes = [each for each in resources if each.kind == resource.kind and each.group != resource.group]
    return [f"\nAlso in the group {each.group}: explain {each.plural}.{each.group}" for each in namesakes]


def _nearest(field: str, choices: Mapping[str, Schema]) -> str:
    if not choices:
        return "it has none"
    lower = {name.lower(): name for name in choices}
    close = [lower[name] for name in difflib.get_close_matches(field.lower(), lower, n=3, cutoff=0.5)]
    return _choices(close, list(choices))


def _choices(close: Sequence[str], every: Sequence[str]) -> str:
    meant = f"did you mean {' or '.join(dict.fromkeys(close))}? " if close else ""
    return f"{meant}choose from {', '.join(every)}"


def _fields(schema: Schema) -> Mapping[str, Schema]:
    """Return the fields of an object, of the entries of a list, or of the values of a map."""
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            return _fields(schema[inner])
    return schema.get("properties", {})


def _type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "characters, at least",
    "maxLength": "characters, at most",
    "minItems": "entries, at least",
    "maxItems": "entries, at most",
    "pattern": "matches",
}


def _described(path: str, schema: Schema) -> list[str]:
    text, default = _said(schema)
    lines = [f"{path} <{_type(schema)}>", f"  {text}".rstrip()]
    if "enum" in schema:
        lines.append(f"  one of: {', '.join(map(str, schema['enum']))}")
    if default:
        lines.append(f"  default: {default}")
    lines += [f"  {words}: {schema[name]}" for name, words in _LIMITS.items() if name in schema]
    lines += [f"  rule: {entry['message']}" for entry in schema.get("x-kubernetes-validations", ())]
    fields = _fields(schema)
    required = _required(schema)
    width = max(map(len, fields), default=0)
    lines += [""] if fields else []
    for name, field in fields.items():
        kind = f"{_type(field)}, required" if name in required else _type(field)
        lines.append(f"  {name:{width}}  <{kind}>  {with_default(*_said(field))}".rstrip())
    return lines


def _said(schema: Schema) -> tuple[str, str]:
    """Return the description of a field, and its default, which fields of templates state in their description."""
    text, default = split_default(schema.get("description", ""))
    return text, default or default_text(schema)


def _required(schema: Schema) -> Sequence[str]:
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            return _required(schema[inner])
    return schema.get("required", ())
