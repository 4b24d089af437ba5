"""Spec of a Valkey."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

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
    UsesMonitoring,
    UsesTLS,
    UsesVolume,
    holds,
    lasting_count,
    memory,
    rule,
)

_SENTINELS = "has(self.sentinel) && has(self.sentinel.enabled) && self.sentinel.enabled"
_SEVERAL = "has(self.replicas) && self.replicas > 1"

Size = Annotated[str, memory("16Mi", "1Ti"), holds("16Mi", "1Ti")]


class Sentinel(Model):
    """Sentinels, which detect a failed primary and elect a new one."""

    enabled: bool = False
    """Run a sentinel beside each server. Sentinels need a majority, so they take three servers or more."""


class ValkeySpec(RunSpec, UsesVolume, UsesTLS, UsesMonitoring):
    """Valkey: a store in memory; sentinels replace its primary when it fails."""

    renamed: ClassVar[Mapping[str, str]] = {"memoryMB": "memory, such as 64Mi"}
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"({_SEVERAL}) == ({_SENTINELS})",
            "several servers and sentinels go together: use replicas 3 with sentinel.enabled true, or 1 without",
            ".sentinel",
        ),
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "servers cannot be removed, since sentinels would still count them; keep the old number",
            ".replicas",
        ),
        *PROVIDED,
    )

    provider: Literal["auto", "builtin", "valkey-operator", "external"] = "builtin"
    """Operator that runs the servers: this one (`builtin`), SAP's valkey-operator by its own Valkey (cache.cs.sap.com),
    or none for an `external` server. `auto` is valkey-operator if the cluster has its kind, else builtin. The first
    choice cannot change. In a ControlPlane of c5c3.io unset is auto."""
    external: ExternalServer | None = None
    """Address of the server, with provider external."""

    replicas: QuorumReplicas = 1
    """Number of servers: one primary and its replicas. You can add servers later, but not remove any."""
    sentinel: Sentinel = Sentinel()
    """Sentinels, which detect a failed primary and elect a new one."""
    memory: Size = "64Mi"
    """Memory of each server for its data. When it is full, Valkey evicts the least recently used data."""
    storage_size: StorageSize = "1Gi"
    """Size of each server's volume. It may grow where the StorageClass allows it, never shrink."""
    config: Options = {}
    """Extra lines of valkey.conf, merged over the operator's defaults: name, value. The operator refuses names that it
    sets itself."""

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        if self.model_fields_set & {"replicas", "sentinel"}:
            return {}
        count = lasting_count(3, existing)
        return {"replicas": count, **({"sentinel": {"enabled": True}} if count > 1 else {})}


VALKEY = Resource(
    kind="Valkey",
    plural="valkeys",
    spec=ValkeySpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Memory", ".spec.memory", priority=1)),
)
