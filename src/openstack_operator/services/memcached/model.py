"""Spec of a Memcached."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    PROVIDED,
    Column,
    ExternalCache,
    Replicas,
    Resource,
    Rule,
    RunSpec,
    Scale,
    UsesMonitoring,
    UsesTLS,
    holds,
    memory,
)

Size = Annotated[str, memory("16Mi", "1Ti"), holds("16Mi", "1Ti")]


class MemcachedSpec(RunSpec, UsesTLS, UsesMonitoring):
    """Memcached: a cache in which services remember tokens for a while."""

    renamed: ClassVar[Mapping[str, str]] = {"memoryMB": "memory, such as 64Mi"}
    rules: ClassVar[tuple[Rule, ...]] = PROVIDED

    provider: Literal["auto", "builtin", "memcached-operator", "external"] = "builtin"
    """Operator that runs the servers: this one (`builtin`), c5c3's memcached-operator by its own Memcached
    (memcached.c5c3.io), or none for `external` servers. `auto` is memcached-operator if the cluster has its kind, else
    builtin. The first choice cannot change. In a ControlPlane of c5c3.io unset is auto."""
    external: ExternalCache | None = None
    """Addresses of the servers, with provider external."""
    replicas: Replicas = 1
    """Number of servers, among which clients distribute keys. Data of a lost server are computed again. With 0,
    services do not cache."""
    memory: Size = "64Mi"
    """Memory of each server for cached items."""
    max_connections: Annotated[int, Field(ge=64, le=65536)] = 1024
    """Connections each server accepts at a time."""

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        return {"replicas": 2}


MEMCACHED = Resource(
    kind="Memcached",
    plural="memcacheds",
    spec=MemcachedSpec,
    scale=Scale("server", "StatefulSet"),
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Memory", ".spec.memory", priority=1)),
)
