"""Servers' disks and volumes in Ceph: the login of nova-compute, and the keys that libvirt gives to its guests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ... import kube, parts
from ...api import CephSource, Sections
from ...plan import Context, Step
from .model import NovaSpec

SECRETS = "/etc/libvirt/secrets"
_MOUNT_PATH = "/etc/openstack-libvirt-secrets"

# Kubelet takes up to a minute and a half to show a changed Secret: ten seconds more do not count.
DEFINE = f"""\
# The keys are there before libvirt is, since guests are started as soon as it answers. A key that changes, or comes
# later, is told to the libvirt that runs; from a file, since others may read a command line.
chmod 700 {SECRETS} && cp {_MOUNT_PATH}/*.xml {_MOUNT_PATH}/*.base64 {SECRETS}/ && chmod 600 {SECRETS}/*
told() {{ cat {_MOUNT_PATH}/* | sha256sum; }}
known=$(told)
(
    while sleep 10; do
        [ "$(told)" != "$known" ] || continue
        now=$(told)
        for xml in {_MOUNT_PATH}/*.xml; do
            uuid=$(basename "$xml" .xml)
            virsh -q -c qemu:///system secret-define "$xml" &&
                virsh -q -c qemu:///system secret-set-value "$uuid" --file "${{xml%.xml}}.base64" || now=$known
        done
        known=$now
    done
) &
"""

# Runs before each nova-compute, whose pod is replaced when keys change. libvirt's own pod gets a changed Secret up to
# a minute and a half later, and is not replaced: servers that start in between would not find their key. nova-compute
# waits for it, which is why it looks twice a second, at files and at a socket.
_HAND_OVER = f"""\
import base64, hashlib, os, time
from pathlib import Path
import libvirt

def read():
    files = {{each.name: each.read_bytes() for each in Path("{_MOUNT_PATH}").iterdir() if each.name[0] != "."}}
    return files, hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()

def define(files):
    node = libvirt.open("qemu:///system")
    for name in files:
        uuid, _, kind = name.partition(".")
        if kind == "xml":
            secret = node.secretDefineXML(files[name].decode())
            secret.setValue(base64.b64decode(files[uuid + ".base64"]))
    known = {{secret.UUIDString() for secret in node.listAllSecrets()}}
    node.close()
    return sorted({{name.partition(".")[0] for name in files}} - known)

libvirt.registerErrorHandler(lambda *_: None, None)
said = ""
while True:
    files, digest = read()
    if digest != os.environ["KEYS_DIGEST"]:
        problem = "the keys that are mounted are not yet those that nova-compute is to use"
    else:
        try:
            missing = define(files)
        except libvirt.libvirtError as error:
            problem = f"libvirt: {{error}}"
        else:
            if not missing:
                break
            problem = f"libvirt does not have the keys {{', '.join(missing)}}"
    if problem != said:
        print(problem, flush=True)
        said = problem
    time.sleep(0.5)
"""


@dataclass(frozen=True, kw_only=True)
class Disks:
    """Clients and keys of Ceph on compute nodes."""

    client: parts.Ceph | None = None
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
        """Mounts of libvirt: the keys, and the folder where it keeps them, which is in memory."""
        if not self.secret:
            return ()
        keys = kube.folder("ceph-keys", self.secret, _MOUNT_PATH, mode=0o400)
        return keys, kube.in_memory("libvirt-secrets", SECRETS)

    def init_containers(self, ctx: Context[NovaSpec]) -> list[kube.Container]:
        """Return those of nova-compute: it starts once the node's libvirt has the keys that it will name."""
        if not self.secret:
            return []
        keys = kube.folder("ceph-keys", self.secret, _MOUNT_PATH, mode=0o400)
        command = ["python3", "-W", "ignore", "-c", _HAND_OVER]
        env: dict[str, str | Mapping[str, Any]] = {"KEYS_DIGEST": self.digest}
        return [
            kube.Container(
                component=parts.program(ctx, "compute"),
                name="libvirt-secrets",
                command=command,
                env=env,
                mounts=(keys, kube.host("libvirt-run", "/run/libvirt")),
                root=True,
            )
        ]

    @property
    def define(self) -> str:
        """First commands of the shell that becomes libvirt."""
        return DEFINE if self.secret else ""


def plan_disks(ctx: Context[NovaSpec]) -> Disks:
    """Plan the client of servers' disks, and the keys of Cinder's volumes. Raises as `parts.ceph` does."""
    compute = ctx.spec.compute
    if not compute.enabled:
        return Disks()
    keys, client = _volume_keys(ctx), None
    if compute.storage_type == "ceph":
        client = parts.ceph(ctx, "vms", compute.rbd or CephSource(), path="spec.compute.rbd")
        keys[client.secret_uuid] = client.key
    if not keys:
        return Disks()
    files = _secret_files(keys)
    config = parts.written(ctx, files, suffix="libvirt-secrets", directory=_MOUNT_PATH, whole=True)
    digest = hashlib.sha256("".join(files[name] for name in sorted(files)).encode()).hexdigest()
    return Disks(client=client, steps=(*((client,) if client else ()), config), secret=config.secret, digest=digest)


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
