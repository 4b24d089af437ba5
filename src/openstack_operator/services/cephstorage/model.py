"""What users write to get a CephStorage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

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
    memory,
    rule,
    settled,
    validated,
)

ClientName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
"""Name of a client without `client.`."""

_MORE = "!has(self.replicas) || !has(oldSelf.replicas) || self.replicas >= oldSelf.replicas"

Size = Annotated[str, memory("256Mi", "64Gi"), holds("256Mi", "64Gi")]


class Pool(Model):
    """A pool, and the client that works in it."""

    rules: ClassVar[tuple[Rule, ...]] = (settled("name", "the pool"), settled("user", "the client"))

    name: PoolName | None = None
    """Name of the pool; unset is called after its use. Cannot be changed, since data does not move by itself."""
    user: ClientName | None = None
    """Name of the client, without `client.`; unset is `cinder`, `glance`, `nova` or `cinder-backup`. Cannot be
    changed; a new key is what `keyGeneration` is for."""
    size: Annotated[int, Field(ge=1, le=10)] | None = None
    """How many copies of each object there are; unset is three, or fewer where there are fewer OSDs of ours."""
    autoscale: Literal["on", "warn", "off"] = "on"
    """Whether Ceph changes the number of placement groups as the pool fills, or only warns (`pg_autoscale_mode`)."""
    placement_groups: Annotated[int, Field(ge=1, le=65536)] = 8
    """Number of placement groups the pool begins with."""


class Pools(Model):
    """What is kept in Ceph."""

    volumes: Pool = Pool()
    """Cinder's volumes."""
    images: Pool = Pool()
    """Glance's images; disks and volumes made of one are clones of it."""
    vms: Pool = Pool()
    """Disks of Nova's servers."""
    backups: Pool = Pool()
    """Cinder's backups."""


class Monitors(PodSettings, UsesVolume):
    """The monitors of a Ceph of ours, which keep the map of it."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(_MORE, "a monitor cannot be taken away, since the others would go on counting it", ".replicas"),
    )

    replicas: QuorumReplicas = 1
    """Number of monitors; more may be added later, none taken away."""
    storage_size: StorageSize = "2Gi"
    """Size of each monitor's volume; may grow where the StorageClass allows it, never shrink."""


class Osds(PodSettings, UsesVolume):
    """What keeps the data of a Ceph of ours."""

    renamed: ClassVar[Mapping[str, str]] = {"memoryMB": "memory, such as 512Mi"}
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(_MORE, "an OSD cannot be taken away with the data on it; keep the old number", ".replicas"),
    )

    replicas: Annotated[int, Field(ge=1, le=32)] = 1
    """Number of OSDs, with a volume each; more may be added later, none taken away. Copies of an object are never on
    the same OSD."""
    storage_size: StorageSize = "20Gi"
    """Size of each OSD's volume, nearly all of which is Ceph's; may grow where the StorageClass allows it, never
    shrink."""
    memory: Size = "512Mi"
    """Memory each OSD tries to keep to (`osd_memory_target`)."""


class External(Model):
    """A Ceph that others run."""

    secret_ref: SecretRef
    """Secret with `ceph.conf`, which must say `fsid` and `mon host`, and `keyring`."""
    manage: bool = True
    """Whether the keyring is that of one client who may make pools and clients, such as client.admin, and they are
    made. If not, it holds the key of a client for each use that is wanted, under the names in `pools`, and the pools
    must be there."""


class Rook(Model):
    """A Ceph that Rook runs in this namespace, which must hold the service accounts Rook wants for a cluster."""

    on_nodes = ("image", "storage", "network")
    node_folders = ("data_dir_host_path",)

    image: Image = "quay.io/ceph/ceph:v19.2.3"
    """Image of Ceph."""
    data_dir_host_path: Annotated[
        str, Field(pattern=r"^/[^:\s]+$", max_length=255), validated(immutable("the folder of the monitors"))
    ] = "/var/lib/rook"
    """Folder of the nodes in which monitors keep their data. Cannot be changed."""
    monitors: QuorumReplicas = 3
    """Number of monitors."""
    failure_domain: Name = "host"
    """What may fail as a whole: no two copies of an object are in the same one."""
    storage: Opaque = {"useAllNodes": True, "useAllDevices": True}
    """`storage` of the CephCluster: which nodes and devices are used."""
    network: Opaque = {"provider": "host"}
    """`network` of the CephCluster. Servers reach Ceph from their nodes' network."""


class CephStorageSpec(RunSpec):
    """Ceph: pools for volumes, images, disks and backups, with a client for each."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.mode) || self.mode != 'external' || has(self.external)",
            "mode external needs the Secret of that Ceph; set external.secretRef",
            ".external",
        ),
        rule(
            "!has(self.encrypted) || !self.encrypted || !has(self.mode) || self.mode != 'external'",
            "that is for its own configuration to say (ms_service_mode = secure), and for the ceph.conf of the Secret "
            "(ms_client_mode = secure); use false",
            ".encrypted",
        ),
    )

    mode: Annotated[Literal["local", "external", "rook"], validated(immutable("the mode"))] = "local"
    """Who runs it: `local` is a small Ceph of ours on volumes of Kubernetes, `external` one that others run, `rook` one
    that Rook runs. Cannot be changed, since data does not move by itself."""
    pools: Pools = Pools()
    """What is kept in Ceph, and under which names."""
    encrypted: bool = False
    """Whether what is sent to it, by it and within it is encrypted (msgr2's secure mode), and who comes otherwise
    is refused. May be turned on and off while it runs. Not for mode external."""
    key_generation: Annotated[
        int, Field(ge=1, le=1000), validated(rule("self >= oldSelf", "old keys do not come back; count up"))
    ] = 1
    """Raise it for new keys: each use gets a client of another name (`cinder-2`), which services move to one by one.
    What the old ones were given goes on working until somebody removes them."""
    monitors: Monitors = Monitors()
    """Monitors of mode local."""
    osds: Osds = Osds()
    """OSDs of mode local."""
    external: External | None = None
    """The Ceph of mode external."""
    rook: Rook = Rook()
    """The Ceph of mode rook."""

    def implied(self) -> dict[str, OptionalSecretRef]:
        """What Rook writes down, as soon as it does."""
        if self.mode != "rook":
            return {}
        names = ("rook-ceph-config", "rook-ceph-mon", *(f"rook-ceph-client-{user}" for user in users(self).values()))
        return {f"rook.{name}": OptionalSecretRef(name=name) for name in names}


USERS = {"volumes": "cinder", "images": "glance", "vms": "nova", "backups": "cinder-backup"}
"""Who keeps what, by use."""


def pools(spec: CephStorageSpec) -> dict[str, Pool]:
    """The pools by use."""
    return {use: getattr(spec.pools, use) for use in USERS}


def users(spec: CephStorageSpec) -> dict[str, str]:
    """Name of the client of each use, without `client.`."""
    # Keys of an external Ceph that we do not make are the business of whoever does.
    counted = spec.key_generation > 1 and (spec.mode != "external" or (spec.external and spec.external.manage))
    suffix = f"-{spec.key_generation}" if counted else ""
    return {use: f"{pool.user or USERS[use]}{suffix}" for use, pool in pools(spec).items()}


class Capacity(Model):
    """What there is to write on, of all OSDs."""

    total: Measured
    """All there is."""
    used: Measured
    """What is in use; each copy of an object counts."""
    available: Measured
    """What is left."""


class CephStorageStatus(Model):
    """What Ceph says of itself."""

    health: Annotated[str, Field(max_length=63)] | None = None
    """HEALTH_OK, HEALTH_WARN or HEALTH_ERR."""
    capacity: Capacity | None = None
    """How full it is."""


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
