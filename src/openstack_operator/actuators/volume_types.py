"""CinderVolumeType: a volume type with its extra specs, over the Block Storage API."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from ..plan import Context
from . import loop
from .answers import member
from .cinder import NAME, Cinder, connected
from .keystone import Identified
from .loop import Facets
from .storage_models import CinderVolumeTypeSpec

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


class VolumeType:
    """The type itself."""

    path = "spec.name"

    def __init__(self, cinder: Cinder, spec: CinderVolumeTypeSpec) -> None:
        self.name = f"volume type {spec.name}"
        self.id = ""
        self.extra_specs: dict[str, str] = {}
        self._cinder = cinder
        self._spec = spec

    @property
    def wanted(self) -> Facets:
        return {"description": self._spec.description, "public": self._spec.public}

    def find(self) -> Facets | None:
        rows = self._cinder.rows("/types", "volume_types", _Type, is_public="None")
        for row in rows:
            if row["name"] == self._spec.name:
                self.id, self.extra_specs = row["id"], row.get("extra_specs") or {}
                public = row.get("os-volume-type-access:is_public", row.get("is_public", True))
                return {"description": row.get("description") or "", "public": public}
        return None

    def create(self) -> None:
        spec = self._spec
        values = {
            "name": spec.name,
            "description": spec.description,
            "os-volume-type-access:is_public": spec.public,
            "extra_specs": spec.extra_specs,
        }
        answer = self._cinder.call("POST", "/types", {"volume_type": values})
        if answer is not None:
            self.id = member(NAME, answer, "volume_type", Identified)["id"]
            self.extra_specs = dict(spec.extra_specs)

    def update(self, changed: frozenset[str]) -> None:
        values = {"name": self._spec.name, "description": self._spec.description, "is_public": self._spec.public}
        self._cinder.call("PUT", "/types/{}", {"volume_type": values}, ids=(self.id,))

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
    def wanted(self) -> Facets:
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
        """They go with their type."""


def ensure(ctx: Context[CinderVolumeTypeSpec]) -> list[str]:
    """The type is as the spec says; what was changed comes out."""
    cinder = connected(ctx)
    volume_type = VolumeType(cinder, ctx.spec)
    return loop.ensure((volume_type, ExtraSpecs(cinder, ctx.spec, volume_type)))


def remove(ctx: Context[CinderVolumeTypeSpec]) -> None:
    """The type is gone; Cinder refuses that while a volume has it."""
    loop.remove((VolumeType(connected(ctx), ctx.spec),))
