"""Servers that move between nodes while they run: the libvirts and QEMUs of one cloud know each other, and nobody else,
by certificates of an authority of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ... import kube, parts, pki
from ...api import Sections
from ...plan import READY, Context, Object, Step, Verdict
from .model import NovaSpec

FOLDER = "/etc/openstack-libvirt-migration"
"""Where libvirt and QEMU read their certificates; a path that servers which run were started with."""
MOUNTED = "/etc/openstack-tls"
"""Folders with certificates as they are mounted, for root alone. `qemu-certificates` of the image copies them."""
LIBVIRT = "libvirt"
"""Component of the pods that are moved from and to."""
PORT = 16514

# libvirtd reads its certificates once, and again when it is told to; QEMU reads its own for each migration. Nodes come
# and go, and a year ends.
FOLLOW = parts.followed(
    f"{MOUNTED}/migration", "qemu-certificates && virt-admin -c libvirtd:///system server-update-tls libvirtd"
)


@dataclass(frozen=True, kw_only=True)
class Migration:
    """What compute nodes need to move servers."""

    authority: parts.OwnAuthority | None = None
    steps: tuple[Step, ...] = ()
    mounts: tuple[kube.Mount, ...] = ()
    """Of libvirt."""
    wake: datetime | None = None
    """When the certificate is to be renewed."""

    @property
    def options(self) -> Sections:
        """Of nova-compute: the way to another libvirt, and that the memory of servers is encrypted on it."""
        if not self.steps:
            return {}
        return {
            "libvirt": {
                "live_migration_uri": f"qemu+tls://%s:{PORT}/system?pkipath={FOLDER}",
                "live_migration_with_native_tls": True,
                "live_migration_permit_auto_converge": True,
            }
        }

    @property
    def env(self) -> dict[str, Mapping[str, Any]]:
        """Of libvirt: where it listens."""
        return {"MIGRATION_ADDRESS": {"fieldRef": {"fieldPath": "status.hostIP"}}} if self.steps else {}

    @property
    def follow(self) -> str:
        """What the shell that becomes libvirt does first."""
        return FOLLOW if self.steps else ""


def migration(ctx: Context[NovaSpec]) -> Migration:
    """The authority, whose key no node has, and a certificate for all nodes there are."""
    compute = ctx.spec.compute
    if not (compute.enabled and compute.live_migration and ctx.spec.image_profile == "debian"):
        return Migration()
    by = parts.own_authority(ctx, "migration", "live migrations", readers=nodes(ctx))
    files = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("migration")))))
    # A name that nobody calls, since there must be one before there are nodes.
    names = frozenset({"compute.invalid", *_addresses(ctx.pods)})

    def certificate(common: str, file: str) -> pki.Pair:
        cert, key = files.get(f"{file}-cert.pem"), files.get(f"{file}-key.pem")
        wanted = pki.Request(common=common, names=names, calls=True)
        return pki.certificate(pki.Pair(key, cert) if key and cert else None, wanted, by.signer, ctx.draw, ctx.now)

    # libvirt takes orders from `compute` alone (images/libvirt/libvirt-start), so that QEMU's certificate gives none.
    libvirt, qemu = certificate("compute", "server"), certificate("qemu", "qemu")
    secret = kube.secret(ctx, ctx.name("migration"), _files(by.bundle, libvirt, qemu))
    return Migration(
        authority=by,
        steps=(by.step, Step(name="Migration", objects=(secret,), after=(by.step,), guarded=True)),
        mounts=(
            kube.folder("migration", secret["metadata"]["name"], f"{MOUNTED}/migration", mode=0o400),
            kube.in_memory("migration-files", FOLDER),
        ),
        wake=min(filter(None, (pki.change(pair, ctx.now) for pair in (libvirt, qemu))), default=None),
    )


def nodes(ctx: Context[NovaSpec]) -> Verdict:
    """Whether libvirt is ready on all nodes, and so follows its files: those of servers that run as well."""
    live = ctx.children.get(("DaemonSet", ctx.name(LIBVIRT)))
    return kube.judge(live) if live else READY


def _addresses(pods: Sequence[Object]) -> set[str]:
    """Addresses of the nodes that run libvirt."""
    ours = (pod for pod in pods if pod["metadata"].get("labels", {}).get(kube.COMPONENT) == LIBVIRT)
    return {pod["status"]["podIP"] for pod in ours if pod["status"].get("podIP")}


def _files(authority: str, libvirt: pki.Pair, qemu: pki.Pair) -> dict[str, str]:
    """Each under the names libvirt and QEMU look for; a node is now the one that calls, now the one that is called.

    QEMU of a node whose libvirt is of an earlier version reads `client-cert.pem` and `server-cert.pem`.
    """
    certs = dict.fromkeys(("server-cert.pem", "client-cert.pem", "clientcert.pem"), libvirt.cert)
    keys = dict.fromkeys(("server-key.pem", "client-key.pem", "clientkey.pem"), libvirt.key)
    own = {"qemu-cert.pem": qemu.cert, "qemu-key.pem": qemu.key}
    return {"cacert.pem": authority, "ca-cert.pem": authority, **certs, **keys, **own}
