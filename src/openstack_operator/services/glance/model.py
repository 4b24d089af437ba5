"""What users write to get a Glance."""

from __future__ import annotations

from typing import Annotated, Literal

from ...api import (
    Column,
    Component,
    Model,
    Name,
    Resource,
    ServiceSpec,
    StorageSize,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    immutable,
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
    """ReadWriteMany is needed for replicas on several nodes."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the images when this Glance is deleted."""


class GlanceSpec(ServiceSpec, UsesDatabase, UsesCache, UsesIdentity):
    """OpenStack Glance: images instances boot from."""

    api: Component = Component()
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
