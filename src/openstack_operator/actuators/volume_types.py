"""CinderVolumeType: a volume type with its extra specs and its encryption, over the Block Storage API."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from ..plan import Context
from . import loop
from .answers import member, read
from .cinder import NAME, Cinder, connected
from .keystone import Identified
from .loop import Facets
from .storage_models import CinderVolumeTypeSpec, VolumeEncryption

_Type = TypedDict(
    "_Type",
    {
        "id": str,
        "name": str,
        "description": NotRequired[str | None],
        "extra_specs": NotRequired[dict[str, str] | None],
        "os-volume-type-access:is_public": NotRequired[bool],
        "is_public": NotRequired[bool],
    },
)


class _Encryption(TypedDict):
    """Encryption of a type; of a type without it, an object without anything."""

    encryption_id: NotRequired[str]
    provider: NotRequired[str | None]
    cipher: NotRequired[str | None]
    key_size: NotRequired[int | None]
    control_location: NotRequired[str | None]


class VolumeType:
    """The type itself."""

    path = "spec.name"

    def __init__(self, cinder: Cinder, spec: CinderVolumeTypeSpec) -> None:
        self.name = f"volume type {spec.name}"
        self.id = ""
        self.public = False
        self.extra_specs: dict[str, str] = {}
        self._cinder = cinder
        self._spec = spec

    @property
    def desired(self) -> Facets:
        return {"description": self._spec.description}

    def find(self) -> Facets | None:
        rows = self._cinder.rows("/types", "volume_types", _Type, is_public="None")
        for row in rows:
            if row["name"] == self._spec.name:
                self.id, self.extra_specs = row["id"], row.get("extra_specs") or {}
                self.public = row.get("os-volume-type-access:is_public", row.get("is_public", True))
                return {"description": row.get("description") or ""}
        return None

    def create(self) -> None:
        spec = self._spec
        # Nobody gets a volume of it before it is encrypted: Cinder would then refuse the encryption.
        public = spec.public and spec.encryption is None
        values = {
            "name": spec.name,
            "description": spec.description,
            "os-volume-type-access:is_public": public,
            "extra_specs": spec.extra_specs,
        }
        answer = self._cinder.call("POST", "/types", {"volume_type": values})
        if answer is not None:
            self.id = member(NAME, answer, "volume_type", Identified)["id"]
            self.public, self.extra_specs = public, dict(spec.extra_specs)

    def update(self, changed: frozenset[str]) -> None:
        self.put(public=self.public)

    def put(self, *, public: bool) -> None:
        """Give the type the description of the spec, and all projects access to it or not."""
        values = {"name": self._spec.name, "description": self._spec.description, "is_public": public}
        self._cinder.call("PUT", "/types/{}", {"volume_type": values}, ids=(self.id,))
        self.public = public

    def delete(self) -> None:
        self._cinder.call("DELETE", "/types/{}", ids=(self.id,))


class ExtraSpecs:
    """The extra specs of a type."""

    path = "spec.extraSpecs"

    def __init__(self, cinder: Cinder, spec: CinderVolumeTypeSpec, of: VolumeType) -> None:
        self.name = f"extra specs of {spec.name}"
        self._cinder = cinder
        self._wanted = spec.extra_specs
        self._of = of

    @property
    def desired(self) -> Facets:
        return dict(self._wanted)

    def find(self) -> Facets | None:
        return dict(self._of.extra_specs)

    def create(self) -> None:
        self.update(frozenset(self._wanted))

    def update(self, changed: frozenset[str]) -> None:
        at = "/types/{}/extra_specs"
        for key in sorted(changed - frozenset(self._wanted)):
            self._cinder.call("DELETE", f"{at}/{{}}", ids=(self._of.id, key))
        if values := {key: self._wanted[key] for key in sorted(changed) if key in self._wanted}:
            self._cinder.call("POST", at, {"extra_specs": values}, ids=(self._of.id,))

    def delete(self) -> None:
        """Do nothing: the extra specs go with their type."""


class Encryption:
    """The encryption of a type."""

    path = "spec.encryption"

    def __init__(self, cinder: Cinder, encryption: VolumeEncryption, of: VolumeType) -> None:
        self.name = f"encryption of {of.name}"
        self._cinder = cinder
        self._wanted = encryption
        self._of = of
        self._id = ""

    @property
    def desired(self) -> Facets:
        return self._wanted.model_dump()

    def find(self) -> Facets | None:
        answer = self._cinder.call("GET", "/types/{}/encryption", ids=(self._of.id,))
        row = read(NAME, answer, _Encryption) if answer is not None else _Encryption()
        self._id = row.get("encryption_id", "")
        return {name: row.get(name) for name in self.desired} if self._id else None

    def create(self) -> None:
        if self._of.public:
            # Until the type has it, its volumes would not be encrypted.
            self._of.put(public=False)
        self._cinder.call("POST", "/types/{}/encryption", {"encryption": self.desired}, ids=(self._of.id,))

    def update(self, changed: frozenset[str]) -> None:
        self._cinder.call("PUT", "/types/{}/encryption/{}", {"encryption": self.desired}, ids=(self._of.id, self._id))

    def delete(self) -> None:
        """Do nothing: the encryption goes with its type."""


class Access:
    """The access of projects to a type: withdrawn before anything else, given once the type is complete."""

    path = "spec.public"

    def __init__(self, of: VolumeType, *, public: bool) -> None:
        self.name = f"access to {of.name}"
        self._public = public
        self._of = of

    @property
    def desired(self) -> Facets:
        return {"public": self._public}

    def find(self) -> Facets | None:
        return {"public": self._of.public}

    def create(self) -> None:
        """Do nothing: the access comes with its type."""

    def update(self, changed: frozenset[str]) -> None:
        self._of.put(public=self._public)

    def delete(self) -> None:
        """Do nothing: the access goes with its type."""


def ensure(ctx: Context[CinderVolumeTypeSpec]) -> list[str]:
    """Make the type as the spec says, and return what was changed."""
    cinder, spec = connected(ctx), ctx.spec
    volume_type = VolumeType(cinder, spec)
    encryption = [Encryption(cinder, spec.encryption, volume_type)] if spec.encryption else []
    access, rest = Access(volume_type, public=spec.public), (ExtraSpecs(cinder, spec, volume_type), *encryption)
    return loop.ensure((volume_type, *rest, access) if spec.public else (volume_type, access, *rest))


def remove(ctx: Context[CinderVolumeTypeSpec]) -> None:
    """Delete the type, unless it belongs to another resource. Cinder refuses that while a volume has it."""
    if ctx.conflicting_fields:
        return
    loop.remove((VolumeType(connected(ctx), ctx.spec),))
