"""Storage of images, volumes and servers' disks: what a cloud takes if its user names none."""

from __future__ import annotations

from typing import Any

from ...plan import Context, Object
from .model import CEPH, ControlPlaneSpec


def storage(ctx: Context[ControlPlaneSpec], field: str, live: Object | None) -> dict[str, Any]:
    """Return the settings of the cloud for a service that stores data or uses volumes. `live` is its resource."""
    if field == "glance":
        return {"storageType": "ceph"} if _in_ceph(ctx, live, "storageType") else {}
    if not ctx.spec.cinder.enabled:
        return {}
    if field == "nova":
        return {"cinderRef": {"name": "cinder"}}
    if field != "cinder":
        return {}
    kind = storage_backend(ctx)
    return {
        **({"backends": [{"name": kind, "type": kind}]} if kind else {}),
        **({"coordination": {"etcdRef": {"name": "etcd"}}} if ctx.spec.etcd.enabled else {}),
    }


def disk_storage(ctx: Context[ControlPlaneSpec], live: Object | None) -> dict[str, Any]:
    """Return the part of `compute` of a Nova with the storage of servers' disks. `live` is its resource."""
    return {"storageType": "ceph"} if _in_ceph(ctx, live, "compute", "storageType") else {}


def storage_backend(ctx: Context[ControlPlaneSpec]) -> str | None:
    """Return the storage of a new service: the cloud's, or the Ceph that it runs or finds; None without one."""
    return ctx.spec.storage_backend or ("ceph" if ctx.spec.ceph.enabled or CEPH in ctx.refs else None)


def _in_ceph(ctx: Context[ControlPlaneSpec], live: Object | None, *path: str) -> bool:
    """Return True if a service keeps its data in Ceph. Images and disks do not move: without `storageBackend`, a
    resource that exists stays as it is, and a new one takes the Ceph that the cloud has.
    """
    if ctx.spec.storage_backend or live is None:
        return storage_backend(ctx) == "ceph"
    value: Any = live["spec"]
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value == "ceph"
