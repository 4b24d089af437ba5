"""What users write to get a Glance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from ...api import (
    CephSource,
    Column,
    Destination,
    HttpApi,
    Model,
    Name,
    Resource,
    Rule,
    Scale,
    SecretKeyRef,
    ServiceSpec,
    StorageSize,
    UsesCache,
    UsesDatabase,
    UsesIdentity,
    UsesStorageClass,
    by_group,
    immutable,
    rule,
    sent,
    validated,
)

StoreName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]


class S3(Model):
    """Images as objects of an S3 server."""

    url: Annotated[str, Field(max_length=512, pattern=r"^https?://[^\s@]+$")]
    """Address of the server."""
    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$")] = "glance"
    """Bucket; made where there is none."""
    region: Annotated[str, Field(max_length=64, pattern=r"^[-A-Za-z0-9]*$")] = ""
    """Region of the bucket, where the server has several."""
    access_key_ref: SecretKeyRef
    """The access key."""
    secret_key_ref: SecretKeyRef
    """The secret key."""

    def destinations(self) -> Sequence[Destination]:
        """The server."""
        return sent({"accessKeyRef": self.access_key_ref, "secretKeyRef": self.secret_key_ref}, self.url)


class Swift(Model):
    """Images as objects of a Swift, or of what speaks its protocol, that a Keystone lets us into."""

    auth_url: Annotated[str, Field(max_length=512, pattern=r"^https?://[^\s@]+$")] | None = None
    """Address of that Keystone (version 3); unset is the one of this service."""
    project: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^:\s]+$")] = "service"
    """Project of the objects, in the domain Default."""
    user: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^:\s]+$")] | None = None
    """User in the domain Default; unset is the user of this service."""
    password_ref: SecretKeyRef | None = None
    """Password of a user that is not this service's."""
    container: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^/\s]+$")] = "glance"
    """Container; made where there is none."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("has(self.user) == has(self.passwordRef)", "a user comes with its passwordRef", ".passwordRef"),
    )

    def destinations(self) -> Sequence[Destination]:
        """That Keystone."""
        return sent({"passwordRef": self.password_ref}, self.auth_url)


class Store(Model):
    """One of several places images are kept in."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("self.type != 's3' || has(self.s3)", "a store of type s3 needs to know the server; set s3", ".s3"),
        rule("self.type == oldSelf.type", "the images in a store do not move; add another store", ".type"),
    )

    name: StoreName
    """Name of the store, by which an upload may ask for it."""
    type: Literal["pvc", "ceph", "swift", "s3"]
    """What it keeps images in; only one store may be of type pvc."""
    rbd: CephSource | None = None
    """Where in Ceph, of type ceph; unset is the CephStorage called `ceph`."""
    s3: S3 | None = None
    """Which server, of type s3."""
    swift: Swift | None = None
    """Which Swift, of type swift; unset is the one in this cloud's catalog."""

    def implied(self) -> Mapping[str, Any]:
        """The Ceph that is meant where nobody names one."""
        return {"rbd": CephSource()} if self.type == "ceph" and not self.rbd else {}


class ImageStorage(UsesStorageClass):
    """Where images are kept, and the volume of those that are kept on one."""

    renamed: ClassVar[Mapping[str, str]] = {"backend": "storageType beside storage: pvc, ceph, swift or s3"}
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.backends) || self.backends.filter(store, store.type == 'pvc').size() <= 1",
            "there is one volume; keep one store of type pvc",
            ".backends",
        ),
    )

    size: StorageSize = "10Gi"
    """Size of the volume; may grow, never shrink."""
    storage_class_name: Name | None = None
    """StorageClass; unset takes the cluster's default."""
    access_mode: Annotated[Literal["ReadWriteOnce", "ReadWriteMany"], validated(immutable("the access mode"))] = (
        "ReadWriteOnce"
    )
    """ReadWriteMany, which the StorageClass must offer, is needed for more than one pod of the API. Cannot be changed
    later."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """What becomes of the images when this Glance is deleted."""
    backend: Literal["file", "rbd", "swift", "s3"] | None = None
    """Another way to say `storageType`, in the words of the image service; it takes its place."""
    rbd: CephSource | None = None
    """Where in Ceph images are kept, if they are; unset is the CephStorage called `ceph`."""
    s3: S3 | None = None
    """The S3 server, if images are kept in one."""
    swift: Swift | None = None
    """The Swift, if images are kept in one; unset is the one in this cloud's catalog."""
    backends: Annotated[
        list[Store],
        Field(max_length=8),
        validated(
            rule(
                "oldSelf.all(old, self.exists(store, store.name == old.name))",
                "the images in a store would be lost; keep it in the list, after another one",
            ),
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = []
    """Several stores at once, instead of `storageType` and what stands beside it; the first one gets what nobody asks
    another one for. Stores may be added, and change places. Images kept before are in the store `file`, `rbd`, `swift`
    or `s3`, which must be among them."""


class ImageCache(Model):
    """Images on the nodes of the API, for those that are asked for again and again."""

    enabled: bool = False
    """Whether there is one. Of little use with Ceph, where servers' disks are clones and nobody asks for an image."""
    size: StorageSize = "10Gi"
    """How much of a node's disk each pod may take for it; the images unused for longest make room."""


_ONE_POD = (
    "!(has(self.api) && has(self.api.autoscaling)) && "
    "(has(self.api) && has(self.api.replicas) ? self.api.replicas : has(self.replicas) ? self.replicas : 1) <= 1"
)
_SEVERAL = "has(self.storage) && has(self.storage.backends) && self.storage.backends.size() > 0"
_BACKEND = "has(self.storage) && has(self.storage.backend)"
_WAS = _BACKEND.replace("self", "oldSelf")
_OLD = "oldSelf.storage.backend"
_WORDS = f"{_OLD} == 'rbd' ? 'ceph' : {_OLD} == 'file' ? 'pvc' : {_OLD}"
"""How `backend` of a Glance that has it from earlier is said now."""


def _several_pods(several_backends: str) -> Rule:
    """CEL rule: several pods share what they keep images in. `several_backends` begins what a type of storage says."""
    shared = (
        f"({_SEVERAL} ? !self.storage.backends.exists(store, store.type == 'pvc') : "
        f"{several_backends}has(self.storageType) && self.storageType != 'pvc') || "
        "has(self.storage) && has(self.storage.accessMode) && self.storage.accessMode == 'ReadWriteMany'"
    )
    return rule(
        f"({_ONE_POD}) || {shared}",
        "pods on several nodes cannot share a ReadWriteOnce volume; use one replica, or storage.accessMode "
        "ReadWriteMany from the start with a StorageClass that has it",
        ".storage",
    )


def _stays(change: str, field: str) -> Rule:
    """CEL rule: where all images are does not change."""
    message = "the images would be lost; name the old store beside the new one in storage.backends"
    return rule(f"({_SEVERAL}) || {change}", message, field)


class GlanceSpec(ServiceSpec, UsesDatabase, UsesCache, UsesIdentity):
    """OpenStack Glance: images instances boot from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        by_group(
            ours=_several_pods(""),
            theirs=_several_pods(f"{_BACKEND} ? self.storage.backend != 'file' : "),
        ),
        by_group(
            ours=_stays(
                f"!has(self.storageType) || ({_WAS} ? self.storageType == ({_WORDS}) : "
                "!has(oldSelf.storageType) || self.storageType == oldSelf.storageType)",
                ".storageType",
            ),
            theirs=_stays(
                "!has(self.storageType) || !has(oldSelf.storageType) || self.storageType == oldSelf.storageType",
                ".storageType",
            ),
        ),
        by_group(
            theirs=_stays(
                f"!({_BACKEND}) || !({_WAS}) || self.storage.backend == oldSelf.storage.backend", ".storage.backend"
            )
        ),
    )

    api: HttpApi = HttpApi()
    """The Image API."""
    storage_type: Literal["pvc", "ceph", "swift", "s3"] = "pvc"
    """Where images are kept: on a volume, in Ceph, in a Swift or in an S3 server."""
    storage: ImageStorage = ImageStorage()
    """The place itself; or several of them."""
    conversion: Literal["raw", "none"] | None = None
    """What an image that is imported (not one that is merely uploaded) is turned into: `raw` is what Ceph can clone.
    Unset is raw where images go to Ceph, none elsewhere."""
    image_cache: ImageCache = ImageCache()
    """A cache of images in the pods of the API."""

    def implied(self) -> Mapping[str, Any]:
        """The Ceph that is meant where nobody names one."""
        sources = {f"storage.{store.name}": store.rbd or CephSource() for store in stores(self) if store.type == "ceph"}
        return {**super().implied(), **({} if self.storage.backends or self.storage.rbd else sources)}

    def destinations(self) -> Sequence[Destination]:
        """The Keystone of a Swift that names none, where that is one of others."""
        places = {f"storage.backends[{index}]": each.swift for index, each in enumerate(self.storage.backends)}
        known = places or {"storage": self.storage.swift}
        refs = {f"{path}.swift.passwordRef": at.password_ref for path, at in known.items() if at and not at.auth_url}
        return sent(refs, self.keystone.auth_url)


_NAMES = {"pvc": "file", "ceph": "rbd", "swift": "swift", "s3": "s3"}
_TYPES: dict[str, Literal["pvc", "ceph", "swift", "s3"]] = {
    "file": "pvc",
    "rbd": "ceph",
    "swift": "swift",
    "s3": "s3",
}


def stores(spec: GlanceSpec) -> list[Store]:
    """Every place images are kept in, the one for most of them first."""
    own = spec.storage
    if own.backends:
        return own.backends
    kind = _TYPES[own.backend] if own.backend else spec.storage_type
    return [Store(name=_NAMES[kind], type=kind, rbd=own.rbd, s3=own.s3, swift=own.swift)]


GLANCE = Resource(
    kind="Glance",
    plural="glances",
    spec=GlanceSpec,
    scale=Scale("api"),
    columns=(Column("Storage", ".spec.storageType"), Column("Endpoint", ".status.endpoint")),
)
