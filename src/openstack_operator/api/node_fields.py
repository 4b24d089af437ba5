"""Fields that decide what runs on nodes as root, as a kind's definition has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .model import ON_NODES, Model
from .resource import Resource
from .schema import Schema, flat_schema

FOLDER = "/var/lib/openstack-operator/"
"""Folder of nodes; every user may name folders below it."""
EACH = "[]"
"""Stands in a path for each entry of a list; entries have names."""


@dataclass(frozen=True)
class NodeField:
    """A field that decides what runs on nodes as root."""

    path: tuple[str, ...]
    """Below spec: `nova`, `compute`, `image`."""
    default: Any
    """Default that the API server fills in; None without one."""
    is_folder: bool

    def __str__(self) -> str:
        return ".".join(("spec", *self.path)).replace(f".{EACH}", EACH)


def node_fields(resource: Resource[Model]) -> list[NodeField]:
    """All of a kind, in the order of its definition; none where it runs nothing on nodes as root."""
    return list(_marked_fields(flat_schema(resource.spec, as_c5c3=resource.as_c5c3), ()))


def _marked_fields(schema: Schema, path: tuple[str, ...]) -> Iterator[NodeField]:
    if mark := schema.get(ON_NODES):
        yield NodeField(path, schema.get("default"), is_folder=mark == "folder")
        return
    for name, field in schema.get("properties", {}).items():
        yield from _marked_fields(field, (*path, name))
    if isinstance(items := schema.get("items"), dict):
        yield from _marked_fields(items, (*path, EACH))
