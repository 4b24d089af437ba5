"""Spec of a Glance."""

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
    UsesKeyManager,
    UsesLogging,
    UsesNotifications,
    UsesPolicies,
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
    """URL of the server."""
    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=r"^[a-z0-9][-a-z0-9.]*[a-z0-9]$")] = "glance"
    """Bucket; Glance creates it if it does not exist."""
    region: Annotated[str, Field(max_length=64, pattern=r"^[-A-Za-z0-9]*$")] = ""
    """Region of the bucket, if the server has several."""
    access_key_ref: SecretKeyRef
    """Secret with the access key."""
    secret_key_ref: SecretKeyRef
    """Secret with the secret key."""

    def destinations(self) -> Sequence[Destination]:
        """Return the server."""
        return sent({"accessKeyRef": self.access_key_ref, "secretKeyRef": self.secret_key_ref}, self.url)


class Swift(Model):
    """Images as objects of a Swift, or of a server with its protocol, to which a Keystone gives access."""

    auth_url: Annotated[str, Field(max_length=512, pattern=r"^https?://[^\s@]+$")] | None = None
    """Address of that Keystone (version 3), the one of this service if unset."""
    project: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^:\s]+$")] = "service"
    """Project of the objects, in the domain Default."""
    user: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[^:\s]+$")] | None = None
    """User in the domain Default, the user of this service if unset."""
    password_ref: SecretKeyRef | None = None
    """Secret with the password of `user`."""
    container: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^/\s]+$")] = "glance"
    """Container; Glance creates it if it does not exist."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "has(self.user) == has(self.passwordRef)",
            "user and passwordRef go together; set both, or neither",
            ".passwordRef",
        ),
    )

    def destinations(self) -> Sequence[Destination]:
        """Return that Keystone."""
        return sent({"passwordRef": self.password_ref}, self.auth_url)


class Store(Model):
    """One of several stores of images."""

    rules: ClassVar[tuple[Rule, ...]] = (
        rule("self.type != 's3' || has(self.s3)", "type s3 needs a server; set s3", ".s3"),
        rule("self.type == oldSelf.type", "the images in a store do not move; add another store", ".type"),
    )

    name: StoreName
    """Name of the store, which an upload can select."""
    type: Literal["pvc", "ceph", "swift", "s3"]
    """Kind of storage; only one store may be of type pvc."""
    rbd: CephSource | None = None
    """Ceph cluster and pool for type ceph, those of the CephStorage `ceph` if unset."""
    s3: S3 | None = None
    """S3 server and bucket, for type s3."""
    swift: Swift | None = None
    """Swift for type swift, the one in this cloud's catalog if unset."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default Ceph if the spec names none."""
        return {"rbd": CephSource()} if self.type == "ceph" and not self.rbd else {}


class ImageStorage(UsesStorageClass):
    """Location of the images, and the volume for images on a volume."""

    renamed: ClassVar[Mapping[str, str]] = {"backend": "storageType beside storage: pvc, ceph, swift or s3"}
    rules: ClassVar[tuple[Rule, ...]] = (
        rule(
            "!has(self.backends) || self.backends.filter(store, store.type == 'pvc').size() <= 1",
            "only one store can be of type pvc; keep one",
            ".backends",
        ),
    )

    size: StorageSize = "10Gi"
    """Size of the volume. It may grow, never shrink."""
    storage_class_name: Name | None = None
    """StorageClass of the volume, the cluster's default if unset. Cannot be changed."""
    access_mode: Annotated[Literal["ReadWriteOnce", "ReadWriteMany"], validated(immutable("the access mode"))] = (
        "ReadWriteOnce"
    )
    """Access mode of the volume. More than one pod of the API needs ReadWriteMany, which the StorageClass must offer.
    Otherwise one pod runs, and the condition FieldsIgnored says so. Cannot be changed later."""
    retention: Literal["Retain", "Delete"] = "Retain"
    """Keep or delete the images when this Glance is deleted."""
    backend: Literal["file", "rbd", "swift", "s3"] | None = None
    """The same as `storageType`, with Glance's names of its stores; takes precedence over it."""
    rbd: CephSource | None = None
    """Ceph cluster and pool for storage in Ceph, those of the CephStorage `ceph` if unset."""
    s3: S3 | None = None
    """S3 server and bucket, for storage in S3."""
    swift: Swift | None = None
    """Swift for storage in Swift, the one in this cloud's catalog if unset."""
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
    """Several stores at once, instead of `storageType` and its settings. The first one gets the images whose upload
    selects no other store. You may add stores, and change their order. Images from before this list are in the store
    `file`, `rbd`, `swift` or `s3`, which the list must contain."""


class ImageCache(Model):
    """Copies of images on the nodes of the API, for images that users read often."""

    enabled: bool = False
    """Cache images. It is of little use with Ceph, where disks are clones and Nova does not download images."""
    size: StorageSize = "10Gi"
    """Space on the node's disk for each pod's cache. Images unused for longest are removed first. The size may
    grow, never shrink."""


_SEVERAL = "has(self.storage) && has(self.storage.backends) && self.storage.backends.size() > 0"
_BACKEND = "has(self.storage) && has(self.storage.backend)"
_WAS = _BACKEND.replace("self", "oldSelf")
_OLD = "oldSelf.storage.backend"
_WORDS = f"{_OLD} == 'rbd' ? 'ceph' : {_OLD} == 'file' ? 'pvc' : {_OLD}"
"""CEL: the value of `storageType` that stands for the old value of `backend`."""


def _immutable_location(change: str, field: str) -> Rule:
    """Return the CEL rule that the location of all images does not change, unless there is a list of stores."""
    message = "the images would be lost; list the old and the new store in storage.backends"
    return rule(f"({_SEVERAL}) || {change}", message, field)


class GlanceSpec(
    ServiceSpec, UsesPolicies, UsesLogging, UsesDatabase, UsesNotifications, UsesCache, UsesIdentity, UsesKeyManager
):
    """OpenStack Glance: images instances boot from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        by_group(
            ours=_immutable_location(
                f"!has(self.storageType) || ({_WAS} ? self.storageType == ({_WORDS}) : "
                "!has(oldSelf.storageType) || self.storageType == oldSelf.storageType)",
                ".storageType",
            ),
            theirs=_immutable_location(
                "!has(self.storageType) || !has(oldSelf.storageType) || self.storageType == oldSelf.storageType",
                ".storageType",
            ),
        ),
        by_group(
            theirs=_immutable_location(
                f"!({_BACKEND}) || !({_WAS}) || self.storage.backend == oldSelf.storage.backend", ".storage.backend"
            )
        ),
    )

    api: HttpApi = HttpApi()
    """Pods of the Image API."""
    storage_type: Literal["pvc", "ceph", "swift", "s3"] = "pvc"
    """Storage of the images: a volume, Ceph, a Swift or an S3 server."""
    storage: ImageStorage = ImageStorage()
    """Settings of that storage; or several stores."""
    conversion: Literal["raw", "none"] | None = None
    """Format into which Glance converts an image on import (not on upload): `raw`, the format that Ceph can clone, or
    `none`. Unset is raw if the images are in Ceph, none otherwise."""
    image_cache: ImageCache = ImageCache()
    """A cache of images in the pods of the API."""

    def default_refs(self) -> Mapping[str, Any]:
        """Return the default Ceph if the spec names none."""
        sources = {f"storage.{store.name}": store.rbd or CephSource() for store in stores(self) if store.type == "ceph"}
        return {**super().default_refs(), **({} if self.storage.backends or self.storage.rbd else sources)}

    def default_counts(self, existing: Mapping[str, Any] | None) -> dict[str, Any]:
        return super().default_counts(existing) if may_spread(self) else {}

    def destinations(self) -> Sequence[Destination]:
        """Return the Keystone of a Swift that names none, if it is an external one."""
        places = {f"storage.backends[{index}]": each.swift for index, each in enumerate(self.storage.backends)}
        swifts = places or {"storage": self.storage.swift}
        refs = {f"{path}.swift.passwordRef": at.password_ref for path, at in swifts.items() if at and not at.auth_url}
        return sent(refs, self.keystone.auth_url)


_NAMES = {"pvc": "file", "ceph": "rbd", "swift": "swift", "s3": "s3"}
_TYPES: dict[str, Literal["pvc", "ceph", "swift", "s3"]] = {
    "file": "pvc",
    "rbd": "ceph",
    "swift": "swift",
    "s3": "s3",
}


def stores(spec: GlanceSpec) -> list[Store]:
    """Return every store of images, the default one first."""
    storage = spec.storage
    if storage.backends:
        return storage.backends
    kind = _TYPES[storage.backend] if storage.backend else spec.storage_type
    return [Store(name=_NAMES[kind], type=kind, rbd=storage.rbd, s3=storage.s3, swift=storage.swift)]


def may_spread(spec: GlanceSpec) -> bool:
    """Return True if pods on different nodes reach all images: they share no volume of one node."""
    on_volume = any(store.type == "pvc" for store in stores(spec))
    return not on_volume or spec.storage.access_mode == "ReadWriteMany"


GLANCE = Resource(
    kind="Glance",
    plural="glances",
    spec=GlanceSpec,
    scale=Scale("api"),
    columns=(Column("Storage", ".spec.storageType"), Column("Endpoint", ".status.endpoint")),
)
