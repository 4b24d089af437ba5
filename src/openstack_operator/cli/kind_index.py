"""The kinds of this operator by name, without their models: to import those takes longer than most commands do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import msgspec

from ..api import Model, Resource
from ..plan import Kind

FILE = Path(__file__).parent / "kinds.json"
"""Written by `openstack-operator generate`."""


class KindEntry(msgspec.Struct, frozen=True):
    """A kind with all that commands need of it."""

    api_version: str
    kind: str
    plural: str
    alias: str
    role: str
    short_names: tuple[str, ...]
    project: str
    is_small: bool
    """True for a resource that an actuator serves, such as a user."""
    spec: str
    """Module and name of its model; empty for one that only the registry has."""

    @property
    def group(self) -> str:
        """The API group."""
        return self.api_version.rpartition("/")[0]

    def as_kind(self) -> Kind:
        """Return the kind in the API."""
        return Kind(self.api_version, self.kind, self.plural, self.alias, project=self.project)

    def load_spec(self) -> type[Model]:
        """Return the model of its spec, which takes time once."""
        return _load_spec(self)


@cache
def _load_spec(entry: KindEntry) -> type[Model]:
    if entry.spec:
        module, _, name = entry.spec.rpartition(".")
        return cast("type[Model]", getattr(import_module(module), name))
    from ..registry import RESOURCES  # noqa: PLC0415  (takes long)

    types = {(each.api_version, each.kind): each.spec for each in RESOURCES}
    return types[entry.api_version, entry.kind]


KINDS: tuple[KindEntry, ...] = msgspec.json.decode(FILE.read_bytes(), type=tuple[KindEntry, ...])
"""Every kind, in the order of the registry."""
BY_TYPE = {(each.api_version, each.kind): each for each in KINDS}
SMALL = frozenset((each.api_version, each.kind) for each in KINDS if each.is_small)


def index_of(resources: Iterable[Resource[Any]], small: Iterable[Resource[Any]]) -> str:
    """Return the content of the file for the kinds of a registry; those in `small` are served by actuators."""
    little = {(each.api_version, each.kind) for each in small}
    entries = [
        {
            "api_version": each.api_version,
            "kind": each.kind,
            "plural": each.plural,
            "alias": each.alias,
            "role": each.role,
            "short_names": each.short_names,
            "project": each.project,
            "is_small": (each.api_version, each.kind) in little,
            "spec": _place(each.spec),
        }
        for each in resources
    ]
    return json.dumps(entries, indent=1) + "\n"


def _place(spec: type[Model]) -> str:
    """Return where a model can be imported from; empty if it was made while the registry was."""
    is_there = getattr(import_module(spec.__module__), spec.__name__, None) is spec
    return f"{spec.__module__}.{spec.__name__}" if is_there else ""
