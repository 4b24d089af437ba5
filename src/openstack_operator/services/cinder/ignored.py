"""Fields of a Cinder that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan, unused
from .model import CinderSpec

_USES = {
    "ceph": ("backup.ceph",),
    "nfs": ("backup.share",),
    "posix": ("backup.files",),
    "s3": ("backup.s3",),
    "swift": ("backup.swift",),
}


def ignored(ctx: Context[CinderSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    backends = {
        f"backends.{index}.{field}": f"only a backend of type {kind} uses it; remove it"
        for index, backend in enumerate(ctx.spec.backends)
        for kind, field in (("ceph", "rbd"), ("lvm", "lvm"), ("nfs", "nfs"))
        if backend.kind != kind
    }
    prepared = {
        f"backends.{index}.{field}": f"type {backend.kind} does not use it; remove it"
        for index, backend in enumerate(ctx.spec.backends)
        for field in ("activeActive", "hostAccess")
        if backend.kind
    }
    backup = ctx.spec.backup.type
    without = {} if backup else {"backup": "backups are off; set backup.type, or remove it"}
    return backends | prepared | without | unused("backup.type", _USES, *([backup] if backup else []))
