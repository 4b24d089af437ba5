"""Servers' disks and volumes in Ceph: what nova-compute logs in with, and the keys libvirt gives to its guests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ... import kube, parts
from ...api import CephSource, Sections
from ...plan import Context, Step
from .model import NovaSpec

SECRETS = "/etc/libvirt/secrets"
_GIVEN = "/etc/openstack-libvirt-secrets"

DEFINE = f"""\
# The keys are there before libvirt is, since guests are started as soon as it answers. A key that changes, or comes
# later, is told to the libvirt that runs; from a file, since others may read a command line.
chmod 700 {SECRETS} && cp {_GIVEN}/*.xml {_GIVEN}/*.base64 {SECRETS}/ && chmod 600 {SECRETS}/*
told() {{ cat {_GIVEN}/* | sha256sum; }}
known=$(told)
(
    while sleep 10; do
        [ "$(told)" != "$known" ] || continue
        now=$(told)
        for xml in {_GIVEN}/*.xml; do
            uuid=$(basename "$xml" .xml)
            virsh -q -c qemu:///system secret-define "$xml" &&
                virsh -q -c qemu:///system secret-set-value "$uuid" --file "${{xml%.xml}}.base64" || now=$known
        done
        known=$now
    done
) &
"""


@dataclass(frozen=True, kw_only=True)
class Disks:
    """What compute nodes know of Ceph."""

    client: parts.Ceph | None = None
    """Who keeps servers' disks; None where these are files of the node."""
    steps: tuple[Step, ...] = ()
    secret: str = ""
    """Secret with what libvirt is told; empty where there is nothing."""

    @property
    def options(self) -> Sections:
        """Of nova-compute. Disks are clones of images in Ceph; what guests discard is given back."""
        if self.client is None:
            return {}
        return {
            "libvirt": {
                "images_type": "rbd",
                "images_rbd_pool": self.client.pool,
                "images_rbd_ceph_conf": self.client.conf,
                "rbd_user": self.client.id,
                "rbd_secret_uuid": self.client.secret_uuid,
                "hw_disk_discard": "unmap",
            }
        }

    @property
    def mounts(self) -> tuple[kube.Mount, ...]:
        """Of libvirt: the keys, and where it keeps them, which is no disk."""
        if not self.secret:
            return ()
        memory = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
        return (
            kube.folder("ceph-keys", self.secret, _GIVEN, mode=0o400),
            kube.Mount(name="libvirt-secrets", path=SECRETS, volume=memory),
        )

    @property
    def define(self) -> str:
        """What the shell that becomes libvirt does first."""
        return DEFINE if self.secret else ""


def disks(ctx: Context[NovaSpec]) -> Disks:
    """The client of servers' disks, and those of Cinder's volumes. Raises as `parts.ceph` does."""
    compute = ctx.spec.compute
    if not compute.enabled:
        return Disks()
    keys, own = _keys_of_volumes(ctx), None
    if compute.storage_type == "ceph":
        own = parts.ceph(ctx, "vms", compute.rbd or CephSource(), path="spec.compute.rbd")
        keys[own.secret_uuid] = own.key
    if not keys:
        return Disks()
    told = parts.written(ctx, _told(keys), suffix="libvirt-secrets", directory=_GIVEN)
    return Disks(client=own, steps=(*((own,) if own else ()), told), secret=told.secret)


def _keys_of_volumes(ctx: Context[NovaSpec]) -> dict[str, str]:
    """The keys guests need for volumes, by the UUID Cinder says with each volume."""
    ref = ctx.spec.cinder_ref
    named = ctx.refs[ref].published.get("cephKeys", "").split() if ref else []
    return {uuid: ctx.secrets[secret]["key"] for uuid, _, secret in (entry.partition("=") for entry in named)}


def _told(keys: Mapping[str, str]) -> dict[str, str]:
    """Files as libvirt reads and writes them itself."""
    found: dict[str, str] = {}
    for uuid, key in keys.items():
        found[f"{uuid}.xml"] = (
            f"<secret ephemeral='no' private='yes'><uuid>{uuid}</uuid>"
            f"<usage type='ceph'><name>{uuid}</name></usage></secret>\n"
        )
        found[f"{uuid}.base64"] = key
    return found
