"""What users write to get an Etcd."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from ...api import Column, QuorumReplicas, Resource, Rule, RunSpec, StorageSize, UsesTLS, UsesVolume, rule


class EtcdSpec(RunSpec, UsesVolume, UsesTLS):
    """etcd: locks that services on several nodes share."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas",
            "members cannot be taken away, since the others would go on counting them; keep the old number",
            ".replicas",
        ),
    )

    replicas: QuorumReplicas = 1
    """Members of the cluster. More may be added later, none taken away."""
    storage_size: StorageSize = "1Gi"
    """Size of each member's volume; may grow where the StorageClass allows it, never shrink."""
    quota_mb: Annotated[int, Field(ge=64, le=8192, alias="quotaMB")] = 512
    """What the keys may take on the disk, in MiB; then etcd refuses to write."""


ETCD = Resource(
    kind="Etcd",
    plural="etcds",
    spec=EtcdSpec,
    columns=(Column("Replicas", ".spec.replicas", "integer"), Column("Endpoint", ".status.endpoint")),
)
