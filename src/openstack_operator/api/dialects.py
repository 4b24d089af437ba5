"""One model, written in two ways: as openstack.k8s.io has it, and as the manifests of c5c3's groups are written."""

from __future__ import annotations

from typing import Any, cast

from .fields import image_object
from .model import AS_OBJECT, CALLED, DEPRECATED, IS_NOW, ON_NODES, OURS, RENAMED, THEIRS, WAS_RENAMED, Rule, rule
from .templates import mapped

Schema = dict[str, Any]

_MARKS = frozenset({AS_OBJECT, RENAMED, DEPRECATED, CALLED})
_RULES = "x-kubernetes-validations"


def in_dialect(node: Any, *, as_c5c3: bool) -> Any:
    """Return the schema of a model in one of the two dialects, without the marks of what differs."""
    if isinstance(node, list):
        return [in_dialect(item, as_c5c3=as_c5c3) for item in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    schema = cast("Schema", node)
    if as_c5c3 and AS_OBJECT in schema:
        overrides = {name: schema[name] for name in ("description", "default", ON_NODES) if name in schema}
        return {**schema[AS_OBJECT], **overrides}
    converted = {name: in_dialect(value, as_c5c3=as_c5c3) for name, value in schema.items() if name not in _MARKS}
    if _RULES in schema:
        converted[_RULES] = [
            dialect_rule for entry in schema[_RULES] if (dialect_rule := _rule_in_dialect(entry, as_c5c3=as_c5c3))
        ]
    names: dict[str, str] = schema.get(CALLED, {}) if as_c5c3 else {}
    if names:
        converted["properties"] = {names.get(name, name): field for name, field in converted["properties"].items()}
    fields: Schema = converted.get("properties", {})
    for old, new in schema.get(RENAMED, {}).items():
        if not as_c5c3 or old not in fields:
            converted = _refusing(converted, old, new)
    for old, new in schema.get(DEPRECATED, {}).items():
        converted = _with_earlier_name(converted, old, new)
    return converted


def with_default_objects(schema: Schema) -> Schema:
    """Return the flat schema of a kind of c5c3's groups. Images in its defaults are objects, too."""
    converted = mapped(schema, with_default_objects)
    return {**converted, "default": _as_objects(schema["default"], schema)} if "default" in schema else converted


def _as_objects(value: Any, schema: Schema) -> Any:
    if isinstance(value, str) and schema.get("type") == "object":
        return image_object(value)
    if not isinstance(value, dict):
        return value
    fields = schema.get("properties", {})
    entries = cast("dict[str, Any]", value).items()
    return {name: _as_objects(entry, fields[name]) if name in fields else entry for name, entry in entries}


def _rule_in_dialect(entry: Rule, *, as_c5c3: bool) -> Rule | None:
    """Return the rule in that dialect; None if it has none there."""
    return entry[THEIRS if as_c5c3 else OURS] if OURS in entry else entry


def _with_earlier_name(schema: Schema, old: str, new: str) -> Schema:
    """Return the schema with a field also under its name of a released version. Raises TypeError for a field whose new
    name is always set, so that the old one would not be read.
    """
    field = schema["properties"][new]
    if field.get("default") is not None or new in schema.get("required", ()):
        raise TypeError(f"{new} was {old} in a released version: it must be neither required nor have a default here")
    earlier = {**field, "description": f"Deprecated; write {new}, which counts if both are set."}
    return {**schema, "properties": {**schema["properties"], old: earlier}}


def _refusing(schema: Schema, old: str, new: str) -> Schema:
    """Return the schema with a field under its earlier name, and a rule that refuses it. Without the field the API
    server would drop its value silently.
    """
    # CEL sees no fields without a type.
    field = {"x-kubernetes-int-or-string": True, "description": f"{IS_NOW}{new}."}
    refusal = rule(f"!has(self.{old})", f"{old}{WAS_RENAMED}{new}", f".{old}")
    return {
        **schema,
        "properties": {**schema.get("properties", {}), old: field},
        _RULES: [*schema.get(_RULES, ()), refusal],
    }
