"""What a field is where nobody sets it, in words for who reads its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

Schema = Mapping[str, Any]

_EMPTY = (None, "", [], {})
_SAID = re.compile(r"(?:^| )Default: (.*)[.]$", re.DOTALL)


def default_text(schema: Schema) -> str:
    """The default of a field, text as it is and all else as JSON; empty where it has none, or an empty one. Of an
    object only what its own fields do not say of themselves.
    """
    value = schema.get("default")
    if isinstance(value, dict):
        fields: Mapping[str, Schema] = schema.get("properties", {})
        value = _beyond(cast("dict[str, Any]", value), {name: field.get("default") for name, field in fields.items()})
    if value in _EMPTY:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def with_default(text: str, default: str) -> str:
    """A description that says a default, if there is one, at its end."""
    return f"{text} Default: {default}.".strip() if default else text


def split_default(text: str) -> tuple[str, str]:
    """A description without the default it ends in, and that default; empty where it says none."""
    said = _SAID.search(text)
    return (text[: said.start()], said[1]) if said else (text, "")


def _beyond(value: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a default that are others than those known already; an empty one is none."""
    found: dict[str, Any] = {}
    for name, entry in value.items():
        base = known.get(name)
        if isinstance(entry, dict) and isinstance(base, (dict, type(None))):
            if rest := _beyond(cast("dict[str, Any]", entry), cast("dict[str, Any]", base or {})):
                found[name] = rest
        elif entry != base and not (entry in _EMPTY and base in _EMPTY):
            found[name] = entry
    return found
