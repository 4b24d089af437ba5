"""An operator of others, as data: its module, its kinds, its programs and its manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Module:
    """A version of a Go module, with what go.sum says of its content. That content has a go.sum for all below it."""

    path: str
    version: str
    sum: str
    unlisted: bool = field(default=False, repr=False)
    """True if Go's checksum database may not answer for this version; the sum here alone says what it is."""

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"


@dataclass(frozen=True)
class Kinds:
    """Custom resource definitions that a module brings."""

    module: Module
    files: tuple[str, ...] = ("config/crd/bases/*.yaml",)
    """Patterns of paths in the module."""


@dataclass(frozen=True)
class Chart:
    """A chart that `helm template` makes objects from."""

    folder: str
    """Relative to the module."""
    namespace: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """In them `{operator}` becomes the full name of the operator's image."""


@dataclass(frozen=True)
class Operator:
    """An operator, as its module has it, and what it needs to work with images of this repository."""

    name: str
    kinds: Kinds
    package: str
    """The program, relative to the module."""
    manifests: str | Chart = ""
    """A chart, or the folder in the module that `kubectl kustomize` makes objects from; empty: neither."""
    extra_files: tuple[str, ...] = ()
    """Further manifests of the module."""
    own_files: tuple[str, ...] = ()
    """Manifests in tools/operators/objects, where the module has none."""
    needs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Kinds without which it does not start: a name in `KINDS` → definitions, all of them if there are none."""
    instead: tuple[Module, ...] = ()
    """Versions that take the place of those its go.mod asks for."""
    programs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further programs in its image: name → package, relative to the module."""
    folder: str = ""
    """Folder of its programs in the image (`bin/`), for one that others start by its path; empty is the root."""
    tags: str = ""
    """Build tags of its programs."""
    base: str = ""
    """Image of this repository below its programs, for those that call other programs."""
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables to set; `{operator}`, `{mariadb}` … become the full names of images."""
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Commands by the name of the container, for images with several programs."""
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Arguments that a container of that name has besides; `{…}` as in variables."""
    starts: tuple[str, ...] = ()
    """Entries of `BY_NAME` whose images run in pods that it makes."""
    makes_certificates: bool = False
    """True if it makes the certificates of its webhooks itself."""
    servers: tuple[str, ...] = ()
    """Images of this repository that fulfil what it expects of its servers."""
    minutes: float = 3
    """Time of a cold build on two cores."""

    @property
    def module(self) -> Module:
        return self.kinds.module
