"""Objects of the cluster as immutable bytes with typed metadata, and changes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import msgspec

from ...api import handle
from ...kube import INSTANCE, KIND, MAKERS_OF_SECRETS, fitting
from ...kube.foreign import is_foreign
from ...plan import Object
from ..kubernetes.kinds import Kind
from ..kubernetes.limits import leave_out_large

OwnerLabels = tuple[str, str, str]
"""(namespace, lower-case role, instance label) of the resource an object was made for."""


def owner_labels(namespace: str, role: str, name: str) -> OwnerLabels:
    """Return what the labels of the objects of a resource say."""
    return namespace, role.lower(), fitting(name)


class Request(NamedTuple):
    """A resource to look at; it has no field for the reason on purpose."""

    kind: str
    """Handle of the kind."""
    namespace: str
    name: str


class OwnerReference(msgspec.Struct, rename="camel", frozen=True):
    """An owner of an object."""

    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool = False

    @property
    def handle(self) -> str:
        """Identifier of its kind in the engine."""
        return handle(self.api_version, self.kind)


class Meta(msgspec.Struct, rename="camel", frozen=True):
    """The metadata the engine looks at."""

    name: str
    uid: str = ""
    resource_version: str = ""
    namespace: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    editors: tuple[str, ...] = ()
    """Managers of fields of its spec that are neither the operator nor a part of Kubernetes."""

    @property
    def controller(self) -> OwnerReference | None:
        """Owner that controls this object. A Secret that another operator made for us still belongs to our resource."""
        owners = (owner for owner in self.owner_references if not owner.api_version.startswith(MAKERS_OF_SECRETS))
        return next((owner for owner in owners if owner.controller), None)

    @property
    def node(self) -> OwnerReference | None:
        """Node it stands for: Kubernetes deletes it with the Node, and the resource that its labels name keeps it."""
        return next((owner for owner in self.owner_references if owner.handle == "Node"), None)

    @property
    def owner_labels(self) -> OwnerLabels:
        """Owner that the labels name; empty strings where they name none."""
        return self.namespace, self.labels.get(KIND, ""), self.labels.get(INSTANCE, "")


@dataclass(frozen=True, slots=True)
class Cached:
    """One object. Each call of `decode` returns a new copy, so that no caller can change what other callers read."""

    meta: Meta
    raw: bytes

    def decode(self) -> Object:
        """Return the object in the shape of its YAML, without managedFields."""
        return cast("Object", msgspec.json.decode(self.raw))


_SPEC = b'"f:spec"'


class _Managed(msgspec.Struct):
    manager: str = ""
    subresource: str = ""
    fields: msgspec.Raw = msgspec.field(name="fieldsV1", default=msgspec.Raw(b"{}"))


_managed = msgspec.json.Decoder(list[_Managed])
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_meta = msgspec.json.Decoder(Meta)


def cached(item: bytes, kind: Kind) -> Cached:
    """Return an entry from the JSON of an object, with the kind, which items of a list lack."""
    fields = leave_out_large(_fields.decode(item))
    metadata = _fields.decode(fields["metadata"])
    # Half of an object's size, of use to the API server only.
    managed = metadata.pop("managedFields", None)
    encoded = msgspec.json.encode(metadata)
    type_meta: dict[str, Any] = {"apiVersion": kind.api_version, "kind": kind.kind}
    raw = msgspec.json.encode({**fields, **type_meta, "metadata": msgspec.Raw(encoded)})
    meta = _meta.decode(encoded)
    editors = _editors(managed) if managed is not None and _SPEC in bytes(managed) else ()
    return Cached(msgspec.structs.replace(meta, editors=editors) if editors else meta, raw)


def _editors(managed: msgspec.Raw) -> tuple[str, ...]:
    entries = (entry for entry in _managed.decode(managed) if _SPEC in bytes(entry.fields))
    return tuple(entry.manager for entry in entries if is_foreign(entry.manager, subresource=entry.subresource))


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one object; None stands for an object that does not exist."""

    kind: Kind
    old: Cached | None
    new: Cached | None
    by: Request | None = None
    """Resource whose pass wrote it, if a pass of ours did: that pass knows already."""
    is_listed: bool = False
    """True if a list showed it, and no watch."""

    @property
    def meta(self) -> Meta:
        """Metadata of the new side, of the old one where the object is gone."""
        return cast("Cached", self.new or self.old).meta


def entry(live: object, kind: Kind) -> Cached:
    """Return the cache entry of an object that an API call returned."""
    return cached(msgspec.json.encode(live), kind)
