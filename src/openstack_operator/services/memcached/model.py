"""What users write to get a Memcached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from ...api import PROVIDED, Column, ExternalCache, Replicas, Resource, Rule, RunSpec, Scale, UsesTLS, holds, memory

Size = Annotated[str, memory("16Mi", "1Ti"), holds("16Mi", "1Ti")]


class MemcachedSpec(RunSpec, UsesTLS):
    """Memcached: where services remember tokens for a while."""

    renamed: ClassVar[Mapping[str, str]] = {"memoryMB": "memory, such as 64Mi"}
    rules: ClassVar[tuple[Rule, ...]] = PROVIDED

    provider: Literal["auto", "builtin", "memcached-operator", "external"] = "builtin"
    """Who runs it: this operator, c5c3's memcached-operator by its own Memcached (memcached.c5c3.io), or somebody else.
    `auto` is memcached-operator where the cluster has its kind, and builtin otherwise. It stays as it was at first. In
    a ControlPlane of c5c3.io unset is auto."""
    external: ExternalCache | None = None
    """Where it is, with provider external."""
    replicas: Replicas = 1
    """Servers, among which clients spread the keys; what a lost server held is simply made again. With none, services
    do not cache."""
    memory: Size = "64Mi"
    """Memory of each server for what it remembers."""
    max_connections: Annotated[int, Field(ge=64, le=65536)] = 1024
    """Connections each server accepts at a time."""


MEMCACHED = Resource(
    kind="Memcached",
    plural="memcacheds",
    spec=MemcachedSpec,
    scale=Scale("server", "StatefulSet"),
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Memory", ".spec.memory", priority=1)),
)
