"""Files that describe the values of a chart: values.yaml with comments, the schema, and a table."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...yaml_text import dump
from .values import Definitions, Values

Schema = dict[str, Any]
_WIDTH = 118
_HEADER = "# Made by `openstack-operator generate`; change the models in generate/chart/values.py instead."


class Value(NamedTuple):
    """A value of a chart."""

    path: tuple[str, ...]
    schema: Schema
    default: Any
    """Value that applies if the user sets none; of a group, all of its values."""
    is_group: bool
    """True if the values below it are values of their own."""


def all_values(model: type[Values]) -> Iterator[Value]:
    """Yield each value of a chart at any depth, a group before the values in it."""
    whole = model.model_json_schema(by_alias=True)
    defaults = model().model_dump(mode="json", by_alias=True)
    yield from _below((), whole, defaults, whole.get("$defs", {}))


def _below(path: tuple[str, ...], schema: Schema, defaults: Schema, definitions: Schema) -> Iterator[Value]:
    for name, field in schema.get("properties", {}).items():
        group = definitions.get(field.get("$ref", "").rpartition("/")[2], {})
        value = Value((*path, name), field, defaults[name], is_group=bool(group))
        yield value
        yield from _below(value.path, group, value.default, definitions)


def values_yaml(model: type[Values]) -> str:
    """Return the values.yaml of a chart: each value with its default, below a comment that describes it."""
    lines = [_HEADER]
    for value in all_values(model):
        indent = "  " * (len(value.path) - 1)
        if len(value.path) == 1:
            lines.append("")
        lines += textwrap.wrap(_text(value), _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        entry = f"{value.path[-1]}:\n" if value.is_group else dump({value.path[-1]: value.default})
        lines.append(textwrap.indent(entry, indent).rstrip())
    return "\n".join([*lines, ""])


def schema_json(model: type[Values]) -> str:
    """Return the values.schema.json of a chart, which refuses values that the chart does not have."""
    schema = _plain(model.model_json_schema(by_alias=True))
    # Helm hands values under `global` to each chart that is part of another one.
    for part in (schema, schema.get("$defs", {}).get(Definitions.__name__)):
        if part:
            part["properties"]["global"] = {"type": "object"}
    whole = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def table(model: type[Values]) -> str:
    """Return the values of a chart as a table of Markdown."""
    rows = [f"| `{'.'.join(value.path)}` | {_default(value)} | {_text(value)} |" for value in all_values(model)]
    return "\n".join(["| value | default | |", "| --- | --- | --- |", *rows, ""])


def _text(value: Value) -> str:
    text = " ".join(value.schema.get("description", "").split())
    choices = value.schema.get("enum", ())
    return f"{text} Choices: {', '.join(map(str, choices))}." if choices else text


def _default(value: Value) -> str:
    if value.is_group:
        return ""
    text = json.dumps(value.default)
    return f"`{text}`" if len(text) <= 40 else "see `values.yaml`"


def _plain(node: Any, *, is_named: bool = False) -> Any:
    """Return a schema with descriptions on one line, without titles and without defaults, which values.yaml has;
    `is_named` is true for a map of schemas.
    """
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    if is_named:
        return {name: _plain(each) for name, each in node.items()}
    schema = {
        key: _plain(each, is_named=key in {"properties", "$defs"})
        for key, each in node.items()
        if key not in {"default", "title"}
    }
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    return schema
