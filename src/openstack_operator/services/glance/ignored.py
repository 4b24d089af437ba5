"""Fields of a Glance that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan, unused
from .model import GlanceSpec, may_spread, stores

ONE_POD = (
    "only one pod runs, since several cannot share a ReadWriteOnce volume; use Ceph, S3 "
    "or Swift, or create the Glance with storage.accessMode ReadWriteMany"
)
_VOLUME = ("size", "storageClassName", "storageClass", "accessMode", "retention")
_USES = {
    "pvc": tuple(f"storage.{field}" for field in _VOLUME),
    "ceph": ("storage.rbd",),
    "s3": ("storage.s3",),
    "swift": ("storage.swift",),
}


def ignored(ctx: Context[GlanceSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    kinds, spec = [store.type for store in stores(ctx.spec)], ctx.spec
    by_store = {
        f"storage.backends.{index}.{field}": f"only a store of type {kind} uses it; remove it"
        for index, store in enumerate(spec.storage.backends)
        for kind, field in (("ceph", "rbd"), ("s3", "s3"), ("swift", "swift"))
        if store.type != kind
    }
    one = ("storageType", "storage.backend", "storage.rbd", "storage.s3", "storage.swift")
    several = dict.fromkeys(one, "storage.backends replaces it; remove it") if spec.storage.backends else {}
    old_type = {"storageType": "storage.backend replaces it; remove it"} if spec.storage.backend else {}
    return _pods(spec) | several | old_type | unused("storageType", _USES, *kinds) | by_store


def _pods(spec: GlanceSpec) -> IgnoredFields:
    """Return the fields that ask for several pods where one alone can run."""
    if may_spread(spec):
        return {}
    numbers = {"replicas": spec.replicas, "api.replicas": spec.api.replicas or 1}
    return {name: ONE_POD for name, number in numbers.items() if number > 1} | {"api.autoscaling": ONE_POD}
