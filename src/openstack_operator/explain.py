"""What a field means, from the same schema the API server has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .api import STATUS, Resource, structural

Schema = dict[str, Any]


def explained(resources: Sequence[Resource[Any]], path: str) -> str:
    """A kind or one of its fields in words: `nova`, `nova.cells.name`, `nova.status`.

    Raises LookupError naming the choices.
    """
    start, *fields = path.removeprefix("spec.").split(".")
    kinds = {name: resource for resource in reversed(resources) for name in _names(resource)}
    if start.lower() not in kinds:
        known = ", ".join(resource.kind for resource in resources)
        raise LookupError(f"there is no kind {start!r}; choose from {known}")
    resource = kinds[start.lower()]
    schema, walked = structural(resource.spec), resource.kind
    for field in fields:
        if field == "spec" and walked == resource.kind:
            continue
        if field == "status" and walked == resource.kind:
            schema, walked = STATUS, f"{walked}.status"
            continue
        choices = _fields(schema)
        if field not in choices:
            known = ", ".join(choices) or "it has none"
            raise LookupError(f"{walked} has no field {field!r}; choose from {known}")
        schema, walked = choices[field], f"{walked}.{field}"
    return _described(walked, schema)


def _names(resource: Resource[Any]) -> tuple[str, ...]:
    return (resource.kind.lower(), resource.plural, *resource.short_names)


def _fields(schema: Schema) -> Schema:
    """Fields of an object, of the entries of a list, or of the values of a map."""
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


def _described(path: str, schema: Schema) -> str:
    lines = [f"{path} <{_type(schema)}>", f"  {schema.get('description', '')}"]
    if "enum" in schema:
        lines.append(f"  one of: {', '.join(map(str, schema['enum']))}")
    if schema.get("default") not in (None, {}, []):
        lines.append(f"  default: {schema['default']}")
    lines += [f"  rule: {entry['message']}" for entry in schema.get("x-kubernetes-validations", ())]
    fields = _fields(schema)
    width = max(map(len, fields), default=0)
    lines += [""] if fields else []
    lines += [f"  {name:{width}}  <{_type(field)}>  {field.get('description', '')}" for name, field in fields.items()]
    return "\n".join(lines)
