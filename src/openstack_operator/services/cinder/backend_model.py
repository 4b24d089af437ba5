"""What users write about the storage of a Cinder: backends for volumes, and a place for backups."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    AGENT,
    AgentSettings,
    CephSource,
    Component,
    Destination,
    Model,
    Name,
    Options,
    Rule,
    SecretKeyRef,
    StorageSize,
    UsesStorageClass,
    immutable,
    rule,
    sent,
    settled,
    validated,
)

# Sections of cinder.conf that are no backend's.
_TAKEN = "['default', 'database', 'nova', 'glance', 'coordination', 'backend', 'barbican', 'vault', 'profiler', 'cors']"

BackendName = Annotated[
    str,
    Field(min_length=1, max_length=24, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$"),
    validated(rule(f"!(self in {_TAKEN})", "Cinder's configuration has a section of this name; choose another name")),
]

VolumeTypeName = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^\S(.*\S)?$")]

_ADDRESS = re.compile(r"(^|_)(ips?|hosts?|hostname|address(es)?|addr|servers?|ur[il]|endpoints?|portals?)(_|$)")
"""Options of drivers that say where their storage is: san_ip, netapp_server_hostname, pure_api_url."""

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
"""The drivers the operator prepares pods for, by type."""


class LoopFile(Model):
    """A file in the place of a disk; for trying things out."""

    node_folders = ("path",)

    path: Path = "/var/lib/openstack-cinder"
    """Folder of the node that holds the file."""
    size: StorageSize = "20Gi"
    """Size of the file when it is made; it takes space as it is written."""


class Lvm(Model):
    """A volume group on one node, whose volumes are reached over iSCSI. Nothing of it survives the node."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("!(has(self.device) && has(self.loopFile))", "a group lies on one of the two; keep one", ".loopFile"),
        settled("device", "the device"),
        settled("volumeGroup", "the volume group"),
    )
    # A group of that name may be somebody else's.
    on_nodes = ("volume_group", "device")

    volume_group: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_+.][-A-Za-z0-9_+.]*$")] | None = None
    """Name of the volume group; made where it does not exist. Unset is the Cinder's name, a dash and the backend's."""
    device: Path | None = None
    """Block device of the node the group is made on, such as /dev/vdb; all on it is lost when the group is made."""
    loop_file: LoopFile | None = None
    """File of the node the group is made on where there is no device; unset without a device takes the defaults."""
    provisioning: Literal["auto", "default", "thin"] = "auto"
    """lvm_type: thin where the node can, or thick (default)."""
    target_helper: Literal["lioadm", "tgtadm"] = "lioadm"
    """Who offers the volumes: the kernel's LIO, or tgtd, a program in the pod."""


class Nfs(Model):
    """Files on NFS shares."""

    shares: Annotated[list[Share], Field(min_length=1, max_length=16)]
    """The shares, each server:/path."""
    mount_options: Annotated[str, Field(max_length=255, pattern=r"^[^\s]+$")] | None = None
    """Options of the mount, with commas between them: vers=4.1,nconnect=4."""
    snapshots: bool = False
    """Whether volumes can have snapshots, which makes chains of qcow2 files."""


class Backend(AgentSettings):
    """A place where volumes are kept, with a cinder-volume of its own."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.type) != has(self.driver) || has(self.type)"
            " && self.driver == {'ceph': 'cinder.volume.drivers.rbd.RBDDriver',"
            " 'lvm': 'cinder.volume.drivers.lvm.LVMVolumeDriver',"
            " 'nfs': 'cinder.volume.drivers.nfs.NfsDriver'}[self.type]",
            "say what kind of storage it is: type (ceph, lvm, nfs), or driver with options",
            ".driver",
        ),
        settled("type", "the type of a backend"),
        settled("driver", "the driver of a backend"),
        rule(
            "!(has(self.type) && self.type == 'nfs' || has(self.driver) && self.driver.endsWith('.nfs.NfsDriver'))"
            " || has(self.nfs)",
            "say which shares: nfs: {shares: ['server:/path']}",
            ".nfs",
        ),
        rule(
            "!has(self.replicas) || self.replicas <= 1 || has(self.type) && self.type == 'ceph'"
            " || has(self.driver) && self.driver.endsWith('.rbd.RBDDriver')"
            " || has(self.activeActive) && self.activeActive",
            "only a driver that can work active/active may run in several pods; use 1, or say activeActive: true",
            ".replicas",
        ),
    )
    # Programs that are root mount the shares.
    on_nodes = ("driver", "nfs", "options", "secret_options", "host_access")

    name: BackendName
    """Name of the backend, and of its volume type unless `volumeType` says another."""
    type: Literal["ceph", "lvm", "nfs"] | None = None
    """Kind of storage; unset where `driver` says it."""
    driver: Annotated[str, Field(max_length=255, pattern=r"^[A-Za-z_][\w.]*$")] | None = None
    """Class of Cinder's driver; for one the operator prepares nothing for, `options` say the rest."""
    replicas: Annotated[int, Field(ge=1, le=9)] = 1
    """Pods of cinder-volume. Several work side by side (active/active), which the driver must be able to and which
    needs `coordination.etcdRef`."""
    active_active: bool = False
    """Whether a driver of your own can work active/active; ceph's can. Not to be changed while there are volumes."""
    rbd: CephSource | None = None
    """Where in Ceph, for type ceph; unset takes the pool of volumes of the CephStorage `ceph`."""
    lvm: Lvm | None = None
    """The volume group, for type lvm."""
    nfs: Nfs | None = None
    """The shares, for type nfs."""
    options: Options = {}
    """Options of the backend's section in cinder.conf. One the operator sets itself is refused."""
    secret_options: Annotated[dict[str, SecretKeyRef], Field(max_length=64)] = {}
    """Options of the backend's section whose values are kept in Secrets: passwords, keys."""
    host_access: bool = False
    """Whether the pod of a driver of your own attaches volumes to its node, as iSCSI and Fibre Channel do: it gets the
    node's network and devices. What the operator knows the driver of has what it needs."""
    volume_type: VolumeTypeName | None = None
    """Name of the volume type that is made for this backend; unset takes the backend's."""
    extra_specs: Annotated[dict[str, Annotated[str, Field(max_length=255)]], Field(max_length=64)] = {}
    """Further extra specs of that volume type."""

    @property
    def kind(self) -> str:
        """ceph, lvm, nfs, or empty for a driver the operator prepares nothing for."""
        return self.type or next((kind for kind, driver in DRIVERS.items() if driver == self.driver), "")

    @property
    def ceph(self) -> CephSource | None:
        """Where in Ceph; None for another kind of storage."""
        return (self.rbd or CephSource()) if self.kind == "ceph" else None

    @property
    def clustered(self) -> bool:
        """Whether its pods form a cluster, of one at first: volumes belong to that then, and not to a pod."""
        return self.kind == "ceph" or self.active_active

    @property
    def type_name(self) -> str:
        """Name of its volume type."""
        return self.volume_type or self.name

    def implied(self) -> Mapping[str, Any]:
        """The CephStorage that is meant where nobody names one."""
        return {"rbd": self.ceph} if self.ceph and not self.rbd else {}

    def destinations(self) -> Sequence[Destination]:
        """What the options call an address, and an unknown server where they say none: only the driver knows."""
        named = [value for name, value in self.options.items() if _ADDRESS.search(name)]
        texts = [str(text) for value in named for text in (value if isinstance(value, list) else str(value).split(","))]
        addresses = tuple(text.strip() for text in texts) or ("",)
        return [Destination(f"secretOptions.{name}", ref.name, addresses) for name, ref in self.secret_options.items()]


class Files(UsesStorageClass):
    """A volume of the Kubernetes cluster for backups."""

    size: StorageSize = "50Gi"
    """Size of the volume; may grow, never shrink."""
    storage_class_name: Name | None = None
    """StorageClass; unset takes the cluster's default."""
    access_mode: Annotated[Literal["ReadWriteOnce", "ReadWriteMany"], validated(immutable("the access mode"))] = (
        "ReadWriteOnce"
    )
    """ReadWriteMany, which the StorageClass must offer, is needed for more than one pod."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the backups when this Cinder is deleted."""


class S3(Model):
    """A bucket behind the S3 API."""

    endpoint: Annotated[str, Field(max_length=255, pattern=r"^https?://\S+$")]
    """URL of the server."""
    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][-.a-z0-9]*[a-z0-9]$")] = (
        "volumebackups"
    )
    """Name of the bucket; made where it does not exist."""
    access_key_ref: SecretKeyRef
    """The access key."""
    secret_key_ref: SecretKeyRef
    """The secret key."""

    def destinations(self) -> Sequence[Destination]:
        """The server."""
        return sent({"accessKeyRef": self.access_key_ref, "secretKeyRef": self.secret_key_ref}, self.endpoint)


class Swift(Model):
    """Swift of this cloud, or another one."""

    url: Annotated[str, Field(max_length=255, pattern=r"^https?://\S+$")] | None = None
    """URL of the object store, which ends in AUTH_ as a rule; unset takes what the catalog says."""
    container: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^/\s]+$")] = "volumebackups"
    """Name of the container in each user's own account."""

    def destinations(self) -> Sequence[Destination]:
        """The object store, which gets tokens of users and no Secret."""
        return [Destination("url", "", (self.url,))] if self.url else []


class Backup(Component):
    """Where backups go, and cinder-backup, which takes them there."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("!has(self.type) || self.type != 's3' || has(self.s3)", "say which bucket: s3: {endpoint: …}", ".s3"),
        rule("!has(self.type) || self.type != 'nfs' || has(self.share)", "say which share: server:/path", ".share"),
    )
    # It is root where a backend is.
    on_nodes = (*AGENT, "share")

    type: Literal["ceph", "nfs", "posix", "s3", "swift"] | None = None
    """Kind of storage; unset runs no cinder-backup."""
    ceph: CephSource | None = None
    """Where in Ceph, for type ceph; unset takes the pool of backups of the CephStorage `ceph`."""
    share: Share | None = None
    """The share, for type nfs; Kubernetes mounts it."""
    files: Files = Files()
    """The volume, for type posix."""
    s3: S3 | None = None
    """The bucket, for type s3."""
    swift: Swift = Swift()
    """The object store, for type swift."""

    @property
    def source(self) -> CephSource | None:
        """Where in Ceph; None for another kind of storage."""
        return (self.ceph or CephSource()) if self.type == "ceph" else None

    def implied(self) -> Mapping[str, Any]:
        """The CephStorage that is meant where nobody names one."""
        return {"ceph": self.source} if self.source and not self.ceph else {}
