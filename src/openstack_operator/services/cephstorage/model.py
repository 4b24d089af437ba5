"""Spec and status of a CephStorage."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    Column,
    Image,
    Measured,
    Model,
    Name,
    Opaque,
    OptionalSecretRef,
    PodSettings,
    PoolName,
    QuorumReplicas,
    Resource,
    Rule,
    RunSpec,
    SecretRef,
    StorageSize,
    UsesVolume,
    holds,
    immutable,
    immutable_optional,
    lasting_count,
    memory,
    rule,
    validated,
)

ClientName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
"""Name of a client without `client.`."""

_NEVER_FEWER = "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas"

Size = Annotated[str, memory("256Mi", "64Gi"), holds("256Mi", "64Gi")]


class Pool(Model):
    """A pool, and the client that works in it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        immutable_optional("name", "the pool"),
        immutable_optional("user", "the client"),
    )

    name: PoolName | None = None
    """Name of the pool, the name of its use if unset. Cannot be changed, since data does not move by itself."""
    user: ClientName | None = None
    """Name of the client, without `client.`. Unset is `cinder`, `glance`, `nova` or `cinder-backup`. Cannot be changed;
    for a new key, raise `keyGeneration`."""
    size: Annotated[int, Field(ge=1, le=10)] | None = None
    """Number of copies of each object, three if unset. In mode local, unset is the number of OSDs if it is lower."""
    autoscale: Literal["on", "warn", "off"] = "on"
    """Let Ceph change the number of placement groups as the pool fills, or only warn (`pg_autoscale_mode`)."""
    placement_groups: Annotated[int, Field(ge=1, le=65536)] = 8
    """Initial number of placement groups of the pool."""


class Pools(Model):
    """Pools, by their use."""

    volumes: Pool = Pool()
    """Pool and client for Cinder's volumes."""
    images: Pool = Pool()
    """Pool and client for Glance's images. Disks and volumes from an image are clones of it."""
    vms: Pool = Pool()
    """Pool and client for the disks of Nova's servers."""
    backups: Pool = Pool()
    """Pool and client for Cinder's backups."""


class Monitors(PodSettings, UsesVolume):
    """Monitors of mode local, which keep the map of the cluster."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            _NEVER_FEWER,
            "monitors cannot be removed, since the quorum would still count them; keep the old number",
            ".replicas",
        ),
    )

    replicas: QuorumReplicas = 1
    """Number of monitors. You may add monitors later, but not remove any."""
    storage_size: StorageSize = "2Gi"
    """Size of each monitor's volume. It may grow if the StorageClass allows it, never shrink."""


class Osds(PodSettings, UsesVolume):
    """OSDs of mode local, which store the data."""

    renamed: ClassVar[Mapping[str, str]] = {"memoryMB": "memory, such as 512Mi"}
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(_NEVER_FEWER, "OSDs with data cannot be removed; keep the old number", ".replicas"),
    )

    replicas: Annotated[int, Field(ge=1, le=32)] = 1
    """Number of OSDs, with a volume each. You may add OSDs later, but not remove any. Copies of an object are never on
    the same OSD."""
    storage_size: StorageSize = "20Gi"
    """Size of each OSD's volume, nearly all of it for data. It may grow if the StorageClass allows it, never shrink."""
    memory: Size = "512Mi"
    """Target for the memory of each OSD (`osd_memory_target`)."""


class External(Model):
    """An external Ceph."""

    secret_ref: SecretRef
    """Secret with `ceph.conf`, which must set `fsid` and `mon host`, and `keyring`."""
    manage: bool = True
    """Create pools and clients, with the key of an administrator such as client.admin in the keyring. With false, the
    pools must exist, and the keyring must hold the key of each client in `pools`."""


class Rook(Model):
    """A Ceph that Rook runs in this namespace, which must have the service accounts that Rook needs for a cluster."""

    on_nodes = ("image", "storage", "network", "cluster")
    node_folders = ("data_dir_host_path",)

    image: Image = "quay.io/ceph/ceph:v19.2.3"
    """Image of Ceph that Rook runs."""
    data_dir_host_path: Annotated[
        str, Field(pattern=r"^/[^:\s]+$", max_length=255), validated(immutable("the folder of the monitors"))
    ] = "/var/lib/rook"
    """Folder of the monitors' data on the nodes. Cannot be changed."""
    monitors: QuorumReplicas = 3
    """Number of monitors that Rook runs."""
    failure_domain: Name = "host"
    """CRUSH failure domain, such as `host` or `rack`: copies of an object are in different ones."""
    storage: Opaque = {"useAllNodes": True, "useAllDevices": True}
    """`storage` of the CephCluster: the nodes and devices to use (`nodes`, `devices`, `deviceFilter`,
    `devicePathFilter`), or claims of block volumes (`storageClassDeviceSets`)."""
    network: Opaque = {"provider": "host"}
    """`network` of the CephCluster. Servers reach Ceph from their nodes' network."""
    cluster: Opaque = {}
    """Further fields of the CephCluster's `spec`, such as `placement`, `resources`, `cephConfig` or
    `mon.allowMultiplePerNode`. They override the operator's defaults, but not the fields above."""


class CephStorageSpec(RunSpec):
    """Ceph: pools for volumes, images, disks and backups, with a client for each."""

    node_agents = {"mode": (("rook",), "local")}

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.mode) || self.mode != 'external' || has(self.external)",
            "mode external needs a Secret with the login; set external.secretRef",
            ".external",
        ),
        rule(
            "!has(self.encrypted) || !self.encrypted || !has(self.mode) || self.mode != 'external'",
            "an external Ceph is encrypted by its own configuration (ms_service_mode) and the Secret's "
            "ceph.conf (ms_client_mode = secure); use false",
            ".encrypted",
        ),
    )

    mode: Annotated[Literal["local", "external", "rook"], validated(immutable("the mode"))] = "local"
    """Kind of cluster: `local` is a small Ceph of this operator on volumes of Kubernetes, `external` an existing one,
    `rook` one that Rook runs. Cannot be changed, since data does not move by itself."""
    pools: Pools = Pools()
    """Pools for each use, and their clients."""
    encrypted: bool = False
    """Require encryption for all connections of clients and daemons (msgr2 secure mode). You can change it while the
    cluster runs. Not for mode external."""
    key_generation: Annotated[
        int,
        Field(ge=1, le=1000),
        validated(rule("self >= oldSelf", "the generation cannot decrease; use a higher number")),
    ] = 1
    """Raise this number to replace the keys of clients. Each use gets a new client (`cinder-2`), and services switch to
    it one by one. Old clients keep their access until you remove them."""
    monitors: Monitors = Monitors()
    """Monitors of mode local: their number and their volumes."""
    osds: Osds = Osds()
    """OSDs of mode local: their number, their volumes and their memory."""
    external: External | None = None
    """Login to the Ceph of mode external."""
    rook: Rook = Rook()
    """Settings of the CephCluster of mode rook."""

    def default_refs(self) -> dict[str, OptionalSecretRef]:
        """Return references to the Secrets that Rook writes, which may not exist yet."""
        if self.mode != "rook":
            return {}
        names = ("rook-ceph-config", "rook-ceph-mon", *(f"rook-ceph-client-{user}" for user in users(self).values()))
        return {f"rook.{name}": OptionalSecretRef(name=name) for name in names}

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        if self.mode != "local":
            return {}
        return {
            daemon: {"replicas": lasting_count(3, None if existing is None else existing.get(daemon, {}))}
            for daemon in ("monitors", "osds")
        }


USERS = {"volumes": "cinder", "images": "glance", "vms": "nova", "backups": "cinder-backup"}
"""Default name of the client of each use."""


def pools(spec: CephStorageSpec) -> dict[str, Pool]:
    """Return the pools by use."""
    return {use: getattr(spec.pools, use) for use in USERS}


def users(spec: CephStorageSpec) -> dict[str, str]:
    """Return the name of the client of each use, without `client.`."""
    # If a user makes the keys of an external Ceph, the user also names their clients.
    has_suffix = spec.key_generation > 1 and (spec.mode != "external" or (spec.external and spec.external.manage))
    suffix = f"-{spec.key_generation}" if has_suffix else ""
    return {use: f"{pool.user or USERS[use]}{suffix}" for use, pool in pools(spec).items()}


class Capacity(Model):
    """Capacity of all OSDs."""

    total: Measured
    """Total capacity."""
    used: Measured
    """Used capacity, including all copies of objects."""
    available: Measured
    """Free capacity."""


class CephStorageStatus(Model):
    """Health and capacity that Ceph reports."""

    health: Annotated[str, Field(max_length=63)] | None = None
    """HEALTH_OK, HEALTH_WARN or HEALTH_ERR."""
    capacity: Capacity | None = None
    """Capacity of the cluster."""


CEPH_STORAGE = Resource(
    kind="CephStorage",
    plural="cephstorages",
    spec=CephStorageSpec,
    status=CephStorageStatus,
    columns=(
        Column("Mode", ".spec.mode"),
        Column("Health", ".status.health"),
        Column("Available", ".status.capacity.available"),
    ),
)
