"""Volumes of Cinder on compute nodes: how Nova asks for them, and what a node needs to attach them."""

from __future__ import annotations

from dataclasses import replace

from ... import kube
from ...api import Sections
from ...parts.connect import sources
from ...parts.run.devices import DEVICES, iscsid
from ...plan import Context
from .model import NovaSpec


def client(ctx: Context[NovaSpec], user: sources.Identity) -> Sections:
    """Return [cinder] of every process. In a cloud without volumes Nova would still look for `volumev3` in the catalog,
    and send tokens to what an administrator of OpenStack registers there.
    """
    if ctx.spec.cinder_ref is None:
        return {"cinder": {"endpoint_template": _NOWHERE, "http_retries": 0}}
    catalog = {"catalog_info": "volumev3::internalURL", "os_region_name": ctx.spec.region}
    return {"cinder": {**user.options, **catalog}}


def _kinds(ctx: Context[NovaSpec]) -> set[str]:
    """Return the kinds of volumes of this cloud: ceph, devices, driver, iscsi, nfs."""
    ref = ctx.spec.cinder_ref
    return set(ctx.refs[ref].published.get("attaches", "").split()) if ref else set()


_NOWHERE = "https://127.0.0.1:1/v3"
"""Place of Cinder's API where there is none: a port of the pod itself, where nothing listens."""
_TYPES = {"ceph": "rbd", "devices": "fibre_channel nvmeof", "driver": "rbd", "iscsi": "iscsi", "nfs": "nfs"}
"""Values of `driver_volume_type` in answers of Cinder, by kind of volume; a driver of the user's own without devices of
nodes has volumes that QEMU itself opens."""


def nova_compute_env(ctx: Context[NovaSpec]) -> dict[str, str]:
    """Return what nova-compute may attach (`images/compute/nova_attachments`), if another program answers in Cinder's
    place, too; nothing in a cloud without volumes.
    """
    kinds, ref = _kinds(ctx), ctx.spec.cinder_ref
    types = {name for kind in kinds for name in _TYPES.get(kind, "").split()}
    env, published = {"NOVA_VOLUME_TYPES": " ".join(sorted(types))}, ctx.refs[ref].published if ref else {}
    # A Cinder that the operator has not looked at since its upgrade does not publish its shares yet.
    is_known = "nfs" not in kinds or "nfsShares" in published
    return {**env, "NOVA_NFS_SHARES": published.get("nfsShares", "")} if is_known else env


def has_cinder_on_nodes(ctx: Context[NovaSpec]) -> bool:
    """Return True if programs of Cinder run on the network of nodes."""
    return "iscsi" in _kinds(ctx)


def nova_compute_mounts(ctx: Context[NovaSpec], mounts: list[kube.Mount]) -> list[kube.Mount]:
    """Return the mounts of nova-compute, which mounts shares below the disks, and logs in to targets."""
    folders = _propagating(mounts, "Bidirectional") if "nfs" in _kinds(ctx) else mounts
    return [*folders, *(DEVICES if "iscsi" in _kinds(ctx) else ())]


def libvirt_mounts(ctx: Context[NovaSpec], mounts: list[kube.Mount]) -> list[kube.Mount]:
    """Return the mounts of libvirt, whose guests open what nova-compute has attached."""
    folders = _propagating(mounts, "HostToContainer") if "nfs" in _kinds(ctx) else mounts
    devices = [mount for mount in DEVICES if mount.name == "dev"] if "iscsi" in _kinds(ctx) else []
    return [*devices, *folders]


def libvirt_env(ctx: Context[NovaSpec]) -> dict[str, str]:
    """Return the sign for libvirt's start that /dev is the node's, where it must change nothing."""
    return {"NODE_DEVICES": "yes"} if "iscsi" in _kinds(ctx) else {}


def sidecars(ctx: Context[NovaSpec]) -> list[kube.Container]:
    """Return the containers that run beside nova-compute."""
    return [iscsid(ctx)] if "iscsi" in _kinds(ctx) else []


def _propagating(mounts: list[kube.Mount], how: str) -> list[kube.Mount]:
    return [replace(mount, propagation=how) if mount.name == "disks" else mount for mount in mounts]
