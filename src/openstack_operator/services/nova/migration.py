"""Live migration of servers between nodes: the libvirts and QEMUs of one cloud know each other, and no other client, by
certificates of an authority of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ... import kube, pki
from ...api import Sections
from ...parts.run.node_networks import addresses, network_env, network_programs
from ...parts.secrets.authorities import OwnAuthority, own_authority
from ...plan import READY, Context, Object, Step, Verdict
from .model import NovaSpec

FOLDER = "/etc/openstack-libvirt-migration"
"""Folder from which libvirt and QEMU read their certificates; servers that run were started with this path."""
MOUNT_PATH = "/etc/openstack-tls"
"""Folders with certificates as they are mounted, for root alone. `qemu-certificates` of the image copies them."""
CERTIFICATES_ENV = {"CERTIFICATES_FOLDER": MOUNT_PATH}
LIBVIRT = "libvirt"
"""Component of the pods between which servers move."""
PORT = 16514


@dataclass(frozen=True, kw_only=True)
class Migration:
    """Steps, mounts and options that compute nodes need to move servers."""

    authority: OwnAuthority | None = None
    steps: tuple[Step, ...] = ()
    mounts: tuple[kube.Mount, ...] = ()
    """Mounts of libvirt."""
    network: str | None = None
    """Network in which nodes have the address for it; None takes the node's own address."""
    wake: datetime | None = None
    """Time at which the certificate is to be renewed."""

    @property
    def options(self) -> Sections:
        """Options of nova-compute: the URI of another libvirt, and encryption of the memory of servers on the way."""
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
    def env(self) -> dict[str, str | Mapping[str, Any]]:
        """Environment of libvirt: the address at which it listens, and the folder of new certificates."""
        if not self.steps:
            return {}
        address = {"fieldRef": {"fieldPath": "status.hostIP"}}
        return {"MIGRATION_ADDRESS": address, **CERTIFICATES_ENV, **network_env(migration=self.network)}

    @property
    def programs(self) -> tuple[str, ...]:
        """Programs that run before libvirt."""
        return (*network_programs(self.network), "nova/follow_migration.sh") if self.steps else ()


def plan_migration(ctx: Context[NovaSpec]) -> Migration:
    """Plan the authority, whose key no node has, and a certificate for all current nodes."""
    compute = ctx.spec.compute
    if not (compute.enabled and compute.live_migration and ctx.spec.image_profile == "debian"):
        return Migration()
    ca = own_authority(ctx, "migration", "live migrations", readers=libvirt_verdict(ctx))
    files = ctx.secret("migration")
    # A name that no client calls, since a certificate needs one before the first node exists.
    names = frozenset({"compute.invalid", *_addresses(ctx.pods), *addresses(compute.migration_network)})

    def certificate(common: str, file: str) -> pki.Pair:
        cert, key = files.get(f"{file}-cert.pem"), files.get(f"{file}-key.pem")
        request = pki.Request(common=common, names=names, calls=True)
        return pki.certificate(pki.Pair(key, cert) if key and cert else None, request, ca.signer, ctx.draw, ctx.now)

    # libvirt takes orders from `compute` alone (images/libvirt/libvirt-start), so that QEMU's certificate gives none.
    libvirt, qemu = certificate("compute", "server"), certificate("qemu", "qemu")
    secret = kube.secret(ctx, ctx.name("migration"), _files(ca.bundle, libvirt, qemu))
    return Migration(
        authority=ca,
        network=compute.migration_network,
        steps=(ca.step, Step(name="Migration", objects=(secret,), after=(ca.step,), guarded=True)),
        mounts=(
            kube.folder("migration", secret["metadata"]["name"], f"{MOUNT_PATH}/migration", mode=0o400),
            kube.in_memory("migration-files", FOLDER),
        ),
        wake=min(filter(None, (pki.change(pair, ctx.now) for pair in (libvirt, qemu))), default=None),
    )


def libvirt_verdict(ctx: Context[NovaSpec]) -> Verdict:
    """Return the verdict on libvirt of all nodes: once ready, it follows its files, and those of servers that run."""
    live = ctx.live("DaemonSet", LIBVIRT)
    return kube.judge(live) if live else READY


def _addresses(pods: Sequence[Object]) -> set[str]:
    """Return the addresses of the nodes that run libvirt."""
    ours = (pod for pod in pods if pod["metadata"].get("labels", {}).get(kube.COMPONENT) == LIBVIRT)
    return {pod["status"]["podIP"] for pod in ours if pod["status"].get("podIP")}


def _files(authority: str, libvirt: pki.Pair, qemu: pki.Pair) -> dict[str, str]:
    """Return each file under the names for which libvirt and QEMU look; a node is now the client, now the server.

    QEMU of a node whose libvirt is of an earlier version reads `client-cert.pem` and `server-cert.pem`.
    """
    certs = dict.fromkeys(("server-cert.pem", "client-cert.pem", "clientcert.pem"), libvirt.cert)
    keys = dict.fromkeys(("server-key.pem", "client-key.pem", "clientkey.pem"), libvirt.key)
    qemu_files = {"qemu-cert.pem": qemu.cert, "qemu-key.pem": qemu.key}
    return {"cacert.pem": authority, "ca-cert.pem": authority, **certs, **keys, **qemu_files}
