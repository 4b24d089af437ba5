"""What users write to get a Valkey."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from ...api import (
    PROVIDED,
    Column,
    ExternalServer,
    Model,
    Options,
    QuorumReplicas,
    Resource,
    Rule,
    RunSpec,
    StorageSize,
    UsesTLS,
    UsesVolume,
    holds,
    memory,
    rule,
)

_SENTINELS = "has(self.sentinel) && has(self.sentinel.enabled) && self.sentinel.enabled"
_SEVERAL = "has(self.replicas) && self.replicas > 1"

Size = Annotated[str, memory("16Mi", "1Ti"), holds("16Mi", "1Ti")]


class Sentinel(Model):
    """Who notices that the primary is gone, and agrees on its successor."""

    enabled: bool = False
    """Whether a sentinel runs beside each server. It takes three servers or more, since sentinels need a majority."""


class ValkeySpec(RunSpec, UsesVolume, UsesTLS):
    """Valkey: a store in memory, whose primary sentinels replace when it is gone."""

    renamed: ClassVar[Mapping[str, str]] = {"memoryMB": "memory, such as 64Mi"}
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"({_SEVERAL}) == ({_SENTINELS})",
            "several servers need sentinels, and sentinels several servers: use replicas 3 with sentinel.enabled true, "
            "or 1 without",
            ".sentinel",
        ),
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "servers cannot be taken away, since sentinels would go on counting them; keep the old number",
            ".replicas",
        ),
        *PROVIDED,
    )

    provider: Literal["auto", "builtin", "valkey-operator", "external"] = "builtin"
    """Who runs it: this operator, SAP's valkey-operator by its own Valkey (cache.cs.sap.com), or somebody else.
    `auto` is valkey-operator where the cluster has its kind, and builtin otherwise. It stays as it was at first. In a
    ControlPlane of c5c3.io unset is auto."""
    external: ExternalServer | None = None
    """Where it is, with provider external."""

    replicas: QuorumReplicas = 1
    """Servers: one that is written to, and copies of it. More may be added later, none taken away."""
    sentinel: Sentinel = Sentinel()
    """Who notices that the primary is gone, and agrees on its successor."""
    memory: Size = "64Mi"
    """Memory of each server for what it holds; then what was used least recently makes room."""
    storage_size: StorageSize = "1Gi"
    """Size of each server's volume; may grow where the StorageClass allows it, never shrink."""
    config: Options = {}
    """Extra lines of valkey.conf, merged over the operator's defaults: name, value. One the operator wires itself is
    refused."""


VALKEY = Resource(
    kind="Valkey",
    plural="valkeys",
    spec=ValkeySpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Memory", ".spec.memory", priority=1)),
)
