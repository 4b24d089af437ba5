"""Fields of a kind that decide which programs run on nodes as root, read from its definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from .model import ENABLED_IF_UNSET, NODE_AGENTS, NODE_VALUES, OBEYED, ON_NODES, Model
from .resource import Resource
from .schema import Schema, flat_schema

FOLDER = "/var/lib/openstack-operator/"
"""Folder of nodes; every user may name folders below it."""
EACH = "[]"
"""Stands in a path for each entry of a list; entries have names."""

Path = tuple[str, ...]

_ADDRESSES: Mapping[str, frozenset[str]] = {
    "database": frozenset({"secretRef", "host", "port"}),
    "messaging": frozenset({"secretRef", "hosts"}),
    "cache": frozenset({"servers"}),
    "keystone": frozenset({"authUrl", "appCredentialRef"}),
    "ovn": frozenset({"clusterRef", "nbConnection", "sbConnection", "tlsSecretRef"}),
}
"""Fields with the address of a server or with its login, by the field that they are in."""
_ORDERS = frozenset(
    {
        "config",
        "env",
        "envSecretRef",
        "external",
        "imageProfile",
        "metadataHost",
        "neutronIntegration",
        "podAnnotations",
        "podLabels",
        "proxy",
    }
)
"""Fields that may name another server, have other webhooks of the cluster add programs, or choose images without the
checks of ours, wherever they are."""


@dataclass(frozen=True)
class NodeField:
    """A field that decides what runs on nodes as root."""

    path: Path
    """Below spec: `nova`, `compute`, `image`."""
    default: Any
    """Default that the API server fills in; None without one."""
    is_folder: bool
    is_order: bool
    """True for a field that names the program or the server whose orders the programs on nodes take."""

    def __str__(self) -> str:
        return _text(self.path)


@dataclass(frozen=True)
class Switch:
    """A field that has to have one of some values."""

    path: Path
    values: tuple[Any, ...]
    unset: Any
    """Value that the field has if it is unset."""

    def __str__(self) -> str:
        return _text(self.path)


@dataclass(frozen=True)
class NodeAgents:
    """Programs that are root on nodes, and the fields that start them; they always run without any."""

    path: Path
    """The part of the spec that they are in."""
    switches: tuple[Switch, ...]

    def __str__(self) -> str:
        return _text(self.path)


@dataclass(frozen=True)
class NodeValues:
    """A field with values by which programs on nodes find a server whose orders they take."""

    path: Path
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return _text(self.path)


def node_fields(resource: Resource[Model]) -> list[NodeField]:
    """Return these fields of a kind, in the order of its definition; none if it runs nothing on nodes as root."""
    return [*_marks(resource).fields]


def node_agents(resource: Resource[Model]) -> list[NodeAgents]:
    """Return the programs of a kind that are root on nodes."""
    return [*_marks(resource).agents]


def node_values(resource: Resource[Model]) -> list[NodeValues]:
    """Return the fields of a kind with values that make it a server whose orders nodes take."""
    return [*_marks(resource).values]


def needs_verb(resource: Resource[Model]) -> bool:
    """Return True if some users may write this kind only in part."""
    marks = _marks(resource)
    return bool(marks.fields or marks.agents or marks.values)


def is_obeyed(resource: Resource[Model]) -> bool:
    """Return True if programs on nodes take orders from what this kind runs."""
    return _marks(resource).is_obeyed


def gives_orders(path: Path, schema: Schema) -> bool:
    """Return True if a field of a kind that nodes obey says which program or server gives them orders."""
    *above, name = path
    return (
        ON_NODES in schema
        or name in _ORDERS
        or name in _ADDRESSES.get(above[-1] if above else "", ())
        or name == "image"
        or name.endswith("Image")
    )


class _Marks(NamedTuple):
    """Marks in a definition that are about programs on nodes."""

    fields: tuple[NodeField, ...]
    agents: tuple[NodeAgents, ...]
    values: tuple[NodeValues, ...]
    is_obeyed: bool


@cache
def _marks(resource: Resource[Model]) -> _Marks:
    """Read a definition once: to write it down takes far longer, and more memory, than these few names."""
    schema = flat_schema(resource.spec, as_c5c3=resource.as_c5c3)
    values: Mapping[str, Any] = schema.get(NODE_VALUES, {})
    return _Marks(
        tuple(_marked_fields(schema, (), is_obeyed=False)),
        tuple(_marked_agents(schema, (), ())),
        tuple(NodeValues((field,), tuple(each)) for field, each in values.items()),
        OBEYED in schema,
    )


def _marked_fields(schema: Schema, path: Path, *, is_obeyed: bool) -> Iterator[NodeField]:
    is_obeyed = is_obeyed or OBEYED in schema
    mark = schema.get(ON_NODES)
    if mark or (is_obeyed and path and gives_orders(path, schema)):
        yield NodeField(path, schema.get("default"), is_folder=mark == "folder", is_order=not mark)
        return
    for inner, below in _below(schema, path):
        yield from _marked_fields(inner, below, is_obeyed=is_obeyed)


def _marked_agents(schema: Schema, path: Path, switches: tuple[Switch, ...]) -> Iterator[NodeAgents]:
    if ENABLED_IF_UNSET in schema:
        switches = (*switches, Switch((*path, "enabled"), (True,), schema[ENABLED_IF_UNSET]))
    for field, (values, unset) in schema.get(NODE_AGENTS, {}).items():
        field_switch = [Switch((*path, field), tuple(values), unset)] if field else []
        yield NodeAgents(path, (*switches, *field_switch))
    for inner, below in _below(schema, path):
        yield from _marked_agents(inner, below, switches)


def _below(schema: Schema, path: Path) -> Iterator[tuple[Schema, Path]]:
    for name, field in schema.get("properties", {}).items():
        yield field, (*path, name)
    if isinstance(items := schema.get("items"), dict):
        yield items, (*path, EACH)


def _text(path: Path) -> str:
    return ".".join(("spec", *path)).replace(f".{EACH}", EACH)
