"""A kind users write: its names, its spec, what `kubectl get` shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .model import Model

SpecT = TypeVar("SpecT", bound=Model, covariant=True)


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    """1 shows it only with -o wide."""


READY_COLUMNS = (
    Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
)
AGE_COLUMN = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, kw_only=True)
class Resource(Generic[SpecT]):
    """A custom resource definition in terms of its model."""

    kind: str
    plural: str
    spec: type[SpecT]
    status: type[Model] | None = None
    """What its status tells besides conditions, endpoint and contract; a plan fills it as `details`."""
    group: str = "openstack.k8s.io"
    version: str = "v1alpha1"
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    """Shown before the age, after the conditions."""
    rules: tuple[dict[str, Any], ...] = ()
    """CEL rules over the whole object (self.metadata.name is at hand there)."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.group}"
