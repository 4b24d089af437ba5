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
LIBVIRT = "libvirt"
"""Component of the pods that are moved from and to."""
PORT = 16514

# libvirtd reads its certificates once, and again when it is told to; QEMU reads its own for each migration. Nodes come
# and go, and a year ends.
FOLLOW = parts.followed(FOLDER, "virt-admin -c libvirtd:///system server-update-tls libvirtd")


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
    wanted = pki.Wanted(common="compute", names=frozenset({"compute.invalid", *_addresses(ctx.pods)}), calls=True)
    held = pki.Pair(files["server-key.pem"], files["server-cert.pem"]) if "server-cert.pem" in files else None
    pair = pki.certificate(held, wanted, by.signer, ctx.draw, ctx.now)
    secret = kube.secret(ctx, ctx.name("migration"), _files(by.bundle, pair))
    return Migration(
        authority=by,
        steps=(by.step, Step(name="Migration", objects=(secret,), after=(by.step,), guarded=True)),
        mounts=(kube.folder("migration", secret["metadata"]["name"], FOLDER, mode=0o400),),
        wake=pki.change(pair, ctx.now),
    )


def nodes(ctx: Context[NovaSpec]) -> Verdict:
    """Whether libvirt is ready on all nodes, and so follows its files: those of servers that run as well."""
    live = ctx.children.get(("DaemonSet", ctx.name(LIBVIRT)))
    return kube.judge(live) if live else READY


def _addresses(pods: Sequence[Object]) -> set[str]:
    """Addresses of the nodes that run libvirt."""
    ours = (pod for pod in pods if pod["metadata"].get("labels", {}).get(kube.COMPONENT) == LIBVIRT)
    return {pod["status"]["podIP"] for pod in ours if pod["status"].get("podIP")}


def _files(authority: str, pair: pki.Pair) -> dict[str, str]:
    """Each under the names libvirt and QEMU look for; a node is now the one that calls, now the one that is called."""
    certs = dict.fromkeys(("server-cert.pem", "client-cert.pem", "clientcert.pem"), pair.cert)
    keys = dict.fromkeys(("server-key.pem", "client-key.pem", "clientkey.pem"), pair.key)
    return {"cacert.pem": authority, "ca-cert.pem": authority, **certs, **keys}
