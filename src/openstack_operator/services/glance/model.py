"""What users write to get a Glance."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from ...api import (
    Column,
    HttpApi,
    Model,
    Name,
    Resource,
    Rule,
    ServiceSpec,
    StorageSize,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    immutable,
    rule,
    settled,
    validated,
)


class ImageStorage(Model):
    """The volume images are kept on."""

    rules = (settled("storageClass", "the storage class"),)

    size: StorageSize = "10Gi"
    """Size of the volume; may grow, never shrink."""
    storage_class: Name | None = None
    """StorageClass; unset takes the cluster's default."""
    access_mode: Annotated[Literal["ReadWriteOnce", "ReadWriteMany"], validated(immutable("the access mode"))] = (
        "ReadWriteOnce"
    )
    """ReadWriteMany, which the StorageClass must offer, is needed for more than one pod of the API. Cannot be changed
    later."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the images when this Glance is deleted."""


_ONE_POD = (
    "!(has(self.api) && has(self.api.autoscaling)) && "
    "!(has(self.api) && has(self.api.autoscaling)) && "
    "(has(self.api) && has(self.api.replicas) ? self.api.replicas : has(self.replicas) ? self.replicas : 1) <= 1"
)
_SHARED = (
    "has(self.storageType) && self.storageType != 'pvc' || "
    "has(self.storage) && has(self.storage.accessMode) && self.storage.accessMode == 'ReadWriteMany'"
)


class GlanceSpec(ServiceSpec, UsesDatabase, UsesCache, UsesIdentity):
    """OpenStack Glance: images instances boot from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            f"({_ONE_POD}) || {_SHARED}",
            "pods on several nodes cannot share a ReadWriteOnce volume; use one replica, or storage.accessMode "
            "ReadWriteMany from the start with a StorageClass that has it",
            ".storage",
        ),
    )

    api: HttpApi = HttpApi()
    """The Image API."""
    storage_type: Literal["pvc", "ceph", "swift"] = "pvc"
    """Where images are kept. Only pvc is built so far; the others are answered with a condition."""
    storage: ImageStorage = ImageStorage()
    """The volume of storageType pvc."""


GLANCE = Resource(
    kind="Glance",
    plural="glances",
    spec=GlanceSpec,
    columns=(Column("Storage", ".spec.storageType"), Column("Endpoint", ".status.endpoint")),
)
