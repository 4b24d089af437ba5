"""A volume whose files several pods may share."""

from __future__ import annotations

from typing import Any, Protocol

from .. import kube
from ..plan import Context


class _Wanted(Protocol):
    """The fields of a spec that describe such a volume."""

    @property
    def size(self) -> str: ...
    @property
    def storage_class_name(self) -> str | None: ...
    @property
    def access_mode(self) -> str: ...
    @property
    def retention(self) -> str: ...


def claim(ctx: Context[Any], suffix: str, wanted: _Wanted, path: str) -> kube.Object:
    """The PersistentVolumeClaim `<owner>-<suffix>`, which outlives its owner with retention Retain; `path` is the field
    of the spec that `wanted` stands in.
    """
    spec = {
        "accessModes": [wanted.access_mode],
        "storageClassName": wanted.storage_class_name,
        "resources": {"requests": {"storage": wanted.size}},
    }
    made = kube.obj(ctx, "PersistentVolumeClaim", ctx.name(suffix), spec=spec)
    made = kube.annotated(made, {kube.FIELD: f"{path}.size"})
    return kube.retained(made) if wanted.retention == "Retain" else made


def claimed(claim: kube.Object) -> dict[str, Any]:
    """What a pod says of a volume to mount this claim."""
    return {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
