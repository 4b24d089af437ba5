"""Storage in the spec of a Cinder: backends for volumes, and a store for backups."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    AGENT,
    AgentSettings,
    CephSource,
    ComponentSettings,
    Destination,
    Model,
    Name,
    Options,
    Rule,
    SecretKeyRef,
    StorageSize,
    UsesStorageClass,
    immutable,
    immutable_optional,
    rule,
    sent,
    validated,
)

# Sections of cinder.conf that belong to no backend.
_CORE = "['default', 'database', 'nova', 'glance', 'coordination', 'backend', 'barbican', 'vault', 'profiler', 'cors']"

BackendName = Annotated[
    str,
    Field(min_length=1, max_length=24, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$"),
    validated(rule(f"!(self in {_CORE})", "cinder.conf uses this name for another section; choose another name")),
]

VolumeTypeName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^\S(.*\S)?$")]

_ADDRESS = re.compile(r"(^|_)(ips?|hosts?|hostname|address(es)?|addr|servers?|ur[il]|endpoints?|portals?)(_|$)")
"""Options of drivers with the address of their storage: san_ip, netapp_server_hostname, pure_api_url."""

Path = Annotated[str, Field(max_length=255, pattern=r"^/[^:\s,]+$")]

Share = Annotated[
    str,
    Field(max_length=512),
    validated(
        rule("self.matches('^[^:/ ]+:/[^ ]*$')", "not a share; write server:/path, such as nfs.example:/volumes")
    ),
]
"""An NFS share: server:/path."""

DRIVERS: Mapping[str, str] = {
    "ceph": "cinder.volume.drivers.rbd.RBDDriver",
    "lvm": "cinder.volume.drivers.lvm.LVMVolumeDriver",
    "nfs": "cinder.volume.drivers.nfs.NfsDriver",
}
"""Drivers for which the operator prepares pods, by type."""


class LoopFile(Model):
    """A file in place of a disk, for tests."""

    node_folders = ("path",)

    path: Path = "/var/lib/openstack-cinder"
    """Folder of the file on the node."""
    size: StorageSize = "20Gi"
    """Initial size of the sparse file. It cannot shrink, and a larger size does not grow an existing file."""


class Lvm(Model):
    """A volume group on one node, with its volumes offered over iSCSI. All its data are lost with the node."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!(has(self.device) && has(self.loopFile))",
            "device and loopFile exclude each other; remove one",
            ".loopFile",
        ),
        immutable_optional("device", "the device"),
        immutable_optional("volumeGroup", "the volume group"),
    )
    # A group of that name may belong to the node.
    on_nodes = ("volume_group", "device")

    volume_group: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_+.][-A-Za-z0-9_+.]*$")] | None = None
    """Name of the volume group. It is created if it does not exist. Unset is the Cinder's name, a dash and the
    backend's. Cannot be changed."""
    device: Path | None = None
    """Block device of the node for the group, such as /dev/vdb. Its data are lost when the group is created. Cannot be
    changed."""
    loop_file: LoopFile | None = None
    """File on the node for the group, instead of a device. If both are unset, a file with the defaults is used."""
    provisioning: Literal["auto", "default", "thin"] = "auto"
    """Value of `lvm_type`: `auto` is thin if the node supports it, `default` is thick."""
    target_helper: Literal["lioadm", "tgtadm"] = "lioadm"
    """iSCSI target: LIO in the kernel (lioadm), or tgtd in the pod (tgtadm)."""


class Nfs(Model):
    """Files on NFS shares."""

    shares: Annotated[list[Share], Field(min_length=1, max_length=16)]
    """Shares, each as server:/path."""
    mount_options: Annotated[str, Field(max_length=255, pattern=r"^[^\s]+$")] | None = None
    """Mount options, separated by commas: vers=4.1,nconnect=4."""
    snapshots: bool = False
    """Allow snapshots of volumes. They are chains of qcow2 files."""


class Backend(AgentSettings):
    """Storage for volumes, with its own cinder-volume."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.type) != has(self.driver) || has(self.type)"
            " && self.driver == {'ceph': 'cinder.volume.drivers.rbd.RBDDriver',"
            " 'lvm': 'cinder.volume.drivers.lvm.LVMVolumeDriver',"
            " 'nfs': 'cinder.volume.drivers.nfs.NfsDriver'}[self.type]",
            "set either type (ceph, lvm, nfs) or driver with options",
            ".driver",
        ),
        immutable_optional("type", "the type of a backend"),
        immutable_optional("driver", "the driver of a backend"),
        rule(
            "!(has(self.type) && self.type == 'nfs' || has(self.driver) && self.driver.endsWith('.nfs.NfsDriver'))"
            " || has(self.nfs)",
            "type nfs needs shares; set nfs: {shares: ['server:/path']}",
            ".nfs",
        ),
        rule(
            "!has(self.replicas) || self.replicas <= 1 || has(self.type) && self.type == 'ceph'"
            " || has(self.driver) && self.driver.endsWith('.rbd.RBDDriver')"
            " || has(self.activeActive) && self.activeActive",
            "several pods need a driver that supports active/active; use 1, or set activeActive: true",
            ".replicas",
        ),
    )
    # Programs that are root mount the shares.
    on_nodes = ("driver", "nfs", "options", "secret_options", "host_access")
    node_agents = {"type": (("lvm", "nfs"), "")}

    name: BackendName
    """Name of the backend, and of its volume type unless `volumeType` sets another one."""
    type: Literal["ceph", "lvm", "nfs"] | None = None
    """Kind of storage; unset if `driver` is set. Cannot be changed."""
    driver: Annotated[str, Field(max_length=255, pattern=r"^[A-Za-z_][\w.]*$")] | None = None
    """Class of Cinder's driver. For a driver of another kind of storage, set its settings in `options`. Cannot
    be changed."""
    replicas: Annotated[int, Field(ge=1, le=9)] = 1
    """Number of cinder-volume pods. Several work at the same time (active/active). The driver must support that, and
    several pods need `coordination.etcdRef`."""
    active_active: bool = False
    """Run the driver of `driver` active/active, if it supports that, as Ceph's does. Do not change it while volumes
    exist."""
    rbd: CephSource | None = None
    """Ceph cluster and pool for type ceph, the pool of volumes of the CephStorage `ceph` if unset."""
    lvm: Lvm | None = None
    """The volume group, for type lvm."""
    nfs: Nfs | None = None
    """The shares, for type nfs."""
    options: Options = {}
    """Options of the backend's section in cinder.conf. The operator refuses options that it sets itself."""
    secret_options: Annotated[dict[str, SecretKeyRef], Field(max_length=64)] = {}
    """Options of the backend's section with values from Secrets: passwords, keys."""
    host_access: bool = False
    """Give the pods of `driver` the node's network and devices, as iSCSI and Fibre Channel need to attach volumes.
    Types ceph, lvm and nfs do not need it."""
    volume_type: VolumeTypeName | None = None
    """Name of the volume type of this backend, the backend's name if unset."""
    extra_specs: Annotated[dict[str, Annotated[str, Field(max_length=255)]], Field(max_length=64)] = {}
    """Further extra specs of that volume type."""

    @property
    def kind(self) -> str:
        """Kind of storage: ceph, lvm, nfs, or empty for a driver for which the operator prepares nothing."""
        return self.type or next((kind for kind, driver in DRIVERS.items() if driver == self.driver), "")

    @property
    def ceph(self) -> CephSource | None:
        """Ceph cluster and pool; None for another kind of storage."""
        return (self.rbd or CephSource()) if self.kind == "ceph" else None

    @property
    def is_clustered(self) -> bool:
        """True if the pods form a cluster, of one at first: volumes then belong to the cluster, not to a pod."""
        return self.kind == "ceph" or self.active_active

    @property
    def type_name(self) -> str:
        """Name of its volume type."""
        return self.volume_type or self.name

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default CephStorage if the spec names none."""
        return {"rbd": self.ceph} if self.ceph and not self.rbd else {}

    def destinations(self) -> Sequence[Destination]:
        """Return the addresses in the options, and an unknown server if they have none: only the driver knows it."""
        raw = [value for name, value in self.options.items() if _ADDRESS.search(name)]
        texts = [str(text) for value in raw for text in (value if isinstance(value, list) else str(value).split(","))]
        addresses = tuple(text.strip() for text in texts) or ("",)
        return [Destination(f"secretOptions.{name}", ref.name, addresses) for name, ref in self.secret_options.items()]


class Files(UsesStorageClass):
    """A volume of the Kubernetes cluster for backups."""

    size: StorageSize = "50Gi"
    """Size of the volume. It may grow, never shrink."""
    storage_class_name: Name | None = None
    """StorageClass of the volume, the cluster's default if unset. Cannot be changed."""
    access_mode: Annotated[Literal["ReadWriteOnce", "ReadWriteMany"], validated(immutable("the access mode"))] = (
        "ReadWriteOnce"
    )
    """Access mode of the volume. More than one pod needs ReadWriteMany, which the StorageClass must offer. Cannot be
    changed."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """Keep or delete the backups when this Cinder is deleted."""


class S3(Model):
    """A bucket behind the S3 API."""

    endpoint: Annotated[str, Field(max_length=255, pattern=r"^https?://\S+$")]
    """URL of the server."""
    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][-.a-z0-9]*[a-z0-9]$")] = (
        "volumebackups"
    )
    """Name of the bucket, which is created if it does not exist."""
    access_key_ref: SecretKeyRef
    """Secret with the access key."""
    secret_key_ref: SecretKeyRef
    """Secret with the secret key."""

    def destinations(self) -> Sequence[Destination]:
        """Return the server."""
        return sent({"accessKeyRef": self.access_key_ref, "secretKeyRef": self.secret_key_ref}, self.endpoint)


class Swift(Model):
    """Swift of this cloud, or another one."""

    url: Annotated[str, Field(max_length=255, pattern=r"^https?://\S+$")] | None = None
    """URL of the object store, that of the catalog if unset. It usually ends in `AUTH_`."""
    container: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^/\s]+$")] = "volumebackups"
    """Name of the container in each user's own account."""

    def destinations(self) -> Sequence[Destination]:
        """Return the object store, which gets tokens of users and no Secret."""
        return [Destination("url", "", (self.url,))] if self.url else []


class Backup(ComponentSettings):
    """Storage for backups, and cinder-backup, which copies them there."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.type) || self.type != 's3' || has(self.s3)",
            "type s3 needs a bucket; set s3: {endpoint: …}",
            ".s3",
        ),
        rule(
            "!has(self.type) || self.type != 'nfs' || has(self.share)",
            "type nfs needs a share; set share: server:/path",
            ".share",
        ),
    )
    # It is root if a backend is.
    on_nodes = (*AGENT, "share")

    type: Literal["ceph", "nfs", "posix", "s3", "swift"] | None = None
    """Kind of storage of backups. Unset runs no cinder-backup."""
    ceph: CephSource | None = None
    """Ceph cluster and pool for type ceph, the pool of backups of the CephStorage `ceph` if unset."""
    share: Share | None = None
    """The share, for type nfs; Kubernetes mounts it."""
    files: Files = Files()
    """Volume of backups, for type posix."""
    s3: S3 | None = None
    """S3 server and bucket, for type s3."""
    swift: Swift = Swift()
    """Object store for backups, for type swift."""

    @property
    def source(self) -> CephSource | None:
        """Ceph cluster and pool; None for another kind of storage."""
        return (self.ceph or CephSource()) if self.type == "ceph" else None

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default CephStorage if the spec names none."""
        return {"ceph": self.source} if self.source and not self.ceph else {}
