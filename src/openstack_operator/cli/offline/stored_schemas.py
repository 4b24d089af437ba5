"""Schemas of the definitions as files: to make one of a model takes a hundred times as long as to read it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from ...api import Resource, crd

FOLDER = Path(__file__).parent / "schemas"
"""Written by `openstack-operator generate`: a file for each kind."""


def read_schema(resource: Resource[Any]) -> Mapping[str, Any]:
    """Return the schema of a kind's definition without its texts; that of the model if the kind has no file."""
    path = file_of(resource)
    return msgspec.json.decode(path.read_bytes()) if path.is_file() else schema_of(resource)


def file_of(resource: Resource[Any]) -> Path:
    """Return the file of a kind's schema."""
    return FOLDER / f"{resource.crd_name}.json"


def content_of(resource: Resource[Any]) -> str:
    """Return the content of that file, in one line: for people there is the definition in `deploy`."""
    return f"{msgspec.json.encode(schema_of(resource)).decode()}\n"


def schema_of(resource: Resource[Any]) -> dict[str, Any]:
    """Return the schema of a kind's definition, made of its model, without what decides about no manifest of a user."""
    whole: dict[str, Any] = crd(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    # The API server knows metadata itself, and no user writes a status.
    free = {"x-kubernetes-preserve-unknown-fields": True}
    properties = whole["properties"]
    status = {"type": "object", **free}
    metadata = {**properties["metadata"], **free}
    return _without_texts({**whole, "properties": {**properties, "metadata": metadata, "status": status}})


def _without_texts(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without descriptions at any depth."""
    rest = {keyword: value for keyword, value in schema.items() if keyword != "description"}
    for keyword in ("items", "additionalProperties"):
        if isinstance(rest.get(keyword), dict):
            rest[keyword] = _without_texts(rest[keyword])
    if "properties" in rest:
        fields = cast("dict[str, dict[str, Any]]", rest["properties"])
        rest["properties"] = {name: _without_texts(field) for name, field in fields.items()}
    return rest
