"""Defaults of fields, in words for readers of the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

Schema = Mapping[str, Any]

_EMPTY = (None, "", [], {})
_SAID = re.compile(r"(?:^| )Default: (.*)[.]$", re.DOTALL)


def default_text(schema: Schema) -> str:
    """Return the default of a field, text unchanged and all else as JSON; empty if it has none, or an empty one. Of an
    object, return only the entries that differ from the defaults of its fields.
    """
    value = schema.get("default")
    if isinstance(value, dict):
        fields: Mapping[str, Schema] = schema.get("properties", {})
        value = _beyond(cast("dict[str, Any]", value), {name: field.get("default") for name, field in fields.items()})
    if value in _EMPTY:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def with_default(text: str, default: str) -> str:
    """Return a description that ends with the default, if there is one."""
    return f"{text} Default: {default}.".strip() if default else text


def split_default(text: str) -> tuple[str, str]:
    """Return a description without the default it ends with, and that default; empty if it states none."""
    match = _SAID.search(text)
    return (text[: match.start()], match[1]) if match else (text, "")


def _beyond(value: Mapping[str, Any], field_defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a default that differ from those of its fields; all empty values are the same."""
    differing: dict[str, Any] = {}
    for name, entry in value.items():
        base = field_defaults.get(name)
        if isinstance(entry, dict) and isinstance(base, (dict, type(None))):
            if rest := _beyond(cast("dict[str, Any]", entry), cast("dict[str, Any]", base or {})):
                differing[name] = rest
        elif entry != base and not (entry in _EMPTY and base in _EMPTY):
            differing[name] = entry
    return differing
