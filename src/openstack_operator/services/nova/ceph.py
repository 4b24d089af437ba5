"""Servers' disks and volumes in Ceph: the login of nova-compute, and the keys that libvirt gives to its guests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ... import agents, kube, parts
from ...api import CephSource, Sections
from ...parts.connect.ceph import Ceph, ceph_client
from ...plan import Context, Step
from .model import NovaSpec

SECRETS = "/etc/libvirt/secrets"
_MOUNT_PATH = "/etc/openstack-libvirt-secrets"
_ROOM = "16Mi"
"""Room for the passphrases of two thousand encrypted volumes; libvirt writes two files for each."""


@dataclass(frozen=True, kw_only=True)
class Disks:
    """Clients and keys of Ceph on compute nodes."""

    client: Ceph | None = None
    """Client for servers' disks; None where these are files of the node."""
    steps: tuple[Step, ...] = ()
    secret: str = ""
    """Name of the Secret with the files for libvirt; empty where libvirt needs no keys."""
    digest: str = ""
    """SHA-256 of its values in the order of their names."""

    @property
    def options(self) -> Sections:
        """Options of nova-compute. Disks are clones of images in Ceph, which gets back the space guests discard."""
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
        """Mounts of libvirt: the keys, and the folder where it keeps them and passphrases of volumes, which is in
        memory, also without Ceph and Barbican: Nova finds a Barbican in the catalog as well.
        """
        folder = kube.in_memory("libvirt-secrets", SECRETS, _ROOM)
        return (*([kube.folder("ceph-keys", self.secret, _MOUNT_PATH, mode=0o400)] if self.secret else []), folder)

    def init_containers(self, ctx: Context[NovaSpec]) -> list[kube.Container]:
        """Return those of nova-compute: it starts once the node's libvirt has the keys that it will name."""
        if not self.secret:
            return []
        keys = kube.folder("ceph-keys", self.secret, _MOUNT_PATH, mode=0o400)
        command = ["python3", "-W", "ignore", "-c", agents.text("nova/hand_over_keys.py")]
        env: dict[str, str | Mapping[str, Any]] = {"KEYS_FOLDER": _MOUNT_PATH, "KEYS_DIGEST": self.digest}
        return [
            kube.Container(
                entry=parts.release_entry(ctx, "compute"),
                name="libvirt-secrets",
                command=command,
                env=env,
                mounts=(keys, kube.host("libvirt-run", "/run/libvirt")),
                root=True,
            )
        ]

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs that run before libvirt."""
        if self.secret:
            return ("nova/define_keys.sh",)
        return ("nova/close_secrets.sh",)

    @property
    def env(self) -> dict[str, str]:
        """Environment of these programs."""
        return {"SECRETS_FOLDER": SECRETS} | ({"KEYS_FOLDER": _MOUNT_PATH} if self.secret else {})


def plan_disks(ctx: Context[NovaSpec]) -> Disks:
    """Plan the client of servers' disks, and the keys of Cinder's volumes. Raises as `ceph_client` does."""
    compute = ctx.spec.compute
    if not compute.enabled:
        return Disks()
    keys, client = _volume_keys(ctx), None
    if compute.storage_type == "ceph":
        client = ceph_client(ctx, "vms", compute.rbd or CephSource(), path="spec.compute.rbd")
        keys[client.secret_uuid] = client.key
    if not keys:
        return Disks()
    files = _secret_files(keys)
    config = parts.written(ctx, files, suffix="libvirt-secrets", directory=_MOUNT_PATH, whole=True)
    digest = hashlib.sha256("".join(files[name] for name in sorted(files)).encode()).hexdigest()
    steps = (*((client,) if client else ()), config)
    return Disks(client=client, steps=steps, secret=config.secret, digest=digest)


def _volume_keys(ctx: Context[NovaSpec]) -> dict[str, str]:
    """Return the keys that guests need for volumes, by the UUID that Cinder names with each volume."""
    ref = ctx.spec.cinder_ref
    entries = ctx.refs[ref].published.get("cephKeys", "").split() if ref else []
    return {uuid: ctx.secrets[secret]["key"] for uuid, _, secret in (entry.partition("=") for entry in entries)}


def _secret_files(keys: Mapping[str, str]) -> dict[str, str]:
    """Return the files of secrets, as libvirt itself reads and writes them."""
    files: dict[str, str] = {}
    for uuid, key in keys.items():
        files[f"{uuid}.xml"] = (
            f"<secret ephemeral='no' private='yes'><uuid>{uuid}</uuid>"
            f"<usage type='ceph'><name>{uuid}</name></usage></secret>\n"
        )
        files[f"{uuid}.base64"] = key
    return files
