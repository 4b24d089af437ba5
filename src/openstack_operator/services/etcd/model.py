"""Spec of an Etcd."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from ...api import (
    Column,
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

Size = Annotated[str, memory("64Mi", "8Gi"), holds("64Mi", "8Gi")]


class EtcdSpec(RunSpec, UsesVolume, UsesTLS, UsesMonitoring):
    """etcd: locks that services on several nodes share."""

    renamed: ClassVar[Mapping[str, str]] = {"quotaMB": "quota, such as 512Mi"}
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "members cannot be removed, since the quorum would still count them; keep the old number",
            ".replicas",
        ),
    )

    replicas: QuorumReplicas = 1
    """Number of members of the cluster. You can add members later, but not remove any."""
    storage_size: StorageSize = "1Gi"
    """Size of each member's volume. It may grow where the StorageClass allows it, never shrink."""
    quota: Size = "512Mi"
    """Backend quota (`--quota-backend-bytes`). When it is full, etcd refuses writes."""

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        return {"replicas": lasting_count(3, existing)}


ETCD = Resource(
    kind="Etcd",
    plural="etcds",
    spec=EtcdSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Endpoint", ".status.endpoint")),
)
