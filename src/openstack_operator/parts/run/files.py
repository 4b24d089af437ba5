"""A volume whose files several pods may share."""

from __future__ import annotations

from typing import Any, Protocol

from ... import kube
from ...plan import Context


class _VolumeFields(Protocol):
    """The fields of a spec that describe such a volume."""

    @property
    def size(self) -> str: ...
    @property
    def storage_class_name(self) -> str | None: ...
    @property
    def access_mode(self) -> str: ...
    @property
    def retention(self) -> str: ...


def volume_claim(ctx: Context[Any], suffix: str, fields: _VolumeFields, path: str) -> kube.Object:
    """Return the PersistentVolumeClaim `<owner>-<suffix>`, which outlives its owner with retention Retain; `path` is
    the field of the spec that holds `fields`.
    """
    spec = {
        "accessModes": [fields.access_mode],
        "storageClassName": fields.storage_class_name,
        "resources": {"requests": {"storage": fields.size}},
    }
    obj = kube.obj(ctx, "PersistentVolumeClaim", ctx.name(suffix), spec=spec)
    obj = kube.annotated(obj, {kube.FIELD: f"{path}.size"})
    return kube.retained(obj) if fields.retention == "Retain" else obj


def volume_source(claim: kube.Object) -> dict[str, Any]:
    """Return the volume source with which a pod mounts this claim."""
    return {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
