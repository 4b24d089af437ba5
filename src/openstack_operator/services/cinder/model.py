"""Spec and status of a Cinder."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from ...api import (
    AGENT,
    BY_NAME,
    Column,
    EtcdRef,
    GlanceRef,
    HttpApi,
    Measured,
    Model,
    Purge,
    Resource,
    Scalable,
    Schedule,
    ServiceSpec,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesKeyManager,
    UsesLogging,
    UsesMessaging,
    UsesPolicies,
)
from .backend_model import Backend, BackendName, Backup, VolumeTypeName

Backends = Annotated[
    list[Backend],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
]

Limit = Annotated[int, Field(ge=-1, le=2_147_483_647)]


class Quotas(Model):
    """Limits of a project, unless it has a quota of its own; -1 is no limit, unset keeps the value in Cinder."""

    volumes: Limit | None = None
    """Maximum number of volumes."""
    gigabytes: Limit | None = None
    """Maximum size of all volumes and snapshots, in GiB."""
    per_volume_gigabytes: Limit | None = None
    """Maximum size of one volume, in GiB."""
    snapshots: Limit | None = None
    """Maximum number of snapshots."""
    backups: Limit | None = None
    """Maximum number of backups."""
    backup_gigabytes: Limit | None = None
    """Maximum size of all backups, in GiB."""
    groups: Limit | None = None
    """Maximum number of groups of volumes."""


class VolumePurge(Purge):
    """Removal of the database rows of deleted volumes, snapshots and backups."""

    schedule: Schedule = "30 2 * * *"
    """Time of the removal, as a cron expression in UTC."""


class Coordination(Model):
    """Distributed locks of Cinder's processes."""

    etcd_ref: EtcdRef | None = None
    """Etcd for the locks, which several pods of one backend need. Unset keeps them in files of each pod."""


class CinderSpec(
    ServiceSpec, UsesPolicies, UsesLogging, UsesDatabase, UsesMessaging, UsesCache, UsesIdentity, UsesKeyManager
):
    """OpenStack Cinder: volumes, their snapshots and backups."""

    # A backend takes unset fields from here, and each has the configuration.
    on_nodes = (*AGENT, "config")

    glance_ref: GlanceRef = GlanceRef(name="glance")
    """Glance with the images for volumes."""
    api: HttpApi = HttpApi()
    """Pods of the Block Storage API."""
    scheduler: Scalable = Scalable()
    """The scheduler, which chooses backends."""
    backends: Backends = []
    """Backends: the storage of volumes, one entry for each."""
    allow_orphans: Annotated[
        list[BackendName], Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = []
    """Names of backends that you may remove from the list while volumes are on them. The volumes stay in the storage,
    but cannot be used until the backend is in the list again."""
    default_volume_type: VolumeTypeName | None = None
    """Default volume type, that of the first backend if unset."""
    quotas: Quotas = Quotas()
    """Default limits of a project without its own CinderQuota. -1 is no limit; unset keeps the value in Cinder."""
    coordination: Coordination = Coordination()
    """Distributed locks of Cinder's processes."""
    backup: Backup = Backup()
    """Backups of volumes."""
    purge: VolumePurge = VolumePurge()
    """Removal of deleted rows from the database."""

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        on_one_node = self.backup.type == "posix" and self.backup.files.access_mode == "ReadWriteOnce"
        return super().default_counts(existing) | ({"backup": {"replicas": 1}} if on_one_node else {})


class _BackendStatus(Model):
    """A backend as Cinder's scheduler sees it."""

    name: Annotated[str, Field(max_length=63)]
    """Name of the backend."""
    status: Annotated[str, Field(max_length=63)] = ""
    """Ready, or Down if no pod reports or if the pods report no pool."""
    volumes: int | None = None
    """Number of volumes on it."""


class BackendStatus(_BackendStatus):
    """A backend as Cinder's scheduler sees it."""

    available_capacity: Measured | None = None
    """Free space of its pools; unset if the storage does not report it."""
    allocated_capacity: Measured | None = None
    """Size of the volumes made on it."""
    total_capacity: Measured | None = None
    """Size of its pools; unset if the storage does not report it."""


class C5C3BackendStatus(_BackendStatus):
    """A backend as Cinder's scheduler sees it."""

    available_capacity_gb: int | None = None
    """Free space of its pools, in GiB; unset if the storage does not report it."""
    allocated_capacity_gb: int | None = None
    """Size of the volumes made on it, in GiB."""
    total_capacity_gb: int | None = None
    """Size of its pools, in GiB; unset if the storage does not report it."""


class CinderStatus(Model):
    """Status of a Cinder besides its conditions."""

    backends: Annotated[list[BackendStatus], BY_NAME] = []
    """Backends as Cinder's scheduler sees them; capacities are some seconds old."""


class C5C3CinderStatus(Model):
    """Status of a Cinder in the form of c5c3's manifests."""

    backends: Annotated[list[C5C3BackendStatus], BY_NAME] = []
    """Backends as Cinder's scheduler sees them; capacities are some seconds old."""


CINDER = Resource(
    kind="Cinder",
    plural="cinders",
    spec=CinderSpec,
    status=CinderStatus,
    columns=(Column("Endpoint", ".status.endpoint"),),
)
