"""Servers that move between nodes while they run: the libvirts and QEMUs of one cloud know each other, and nobody else,
by certificates of an authority of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ... import kube
from ...api import Sections
from ...plan import Context, Object, Step
from .model import NovaSpec

FOLDER = "/etc/openstack-libvirt-migration"
LIBVIRT = "libvirt"
"""Component of the pods that are moved from and to."""
AUTHORITY, LEAF = timedelta(days=3650), timedelta(days=365)
"""How long a certificate is good."""
_SKEW = timedelta(hours=1)
"""What clocks of nodes may be behind."""
_PORT = 16514

# libvirtd reads its certificates once, and again when it is told to; QEMU reads its own for each migration. Nodes come
# and go, and a year ends.
FOLLOW = f"""\
(
    told() {{ cat {FOLDER}/*.pem | sha256sum; }}
    known=$(told)
    while sleep 10; do
        now=$(told)
        [ "$now" != "$known" ] || continue
        if virt-admin -c libvirtd:///system server-update-tls libvirtd > /dev/null; then known=$now; fi
    done
) &
"""


@dataclass(frozen=True, kw_only=True)
class Migration:
    """What compute nodes need to move servers."""

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
                "live_migration_uri": f"qemu+tls://%s:{_PORT}/system?pkipath={FOLDER}",
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
    authority = _authority(ctx)
    held = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("migration")))))
    nodes = _addresses(ctx.pods)
    signer = kube.secret_data(authority)
    if not _good(held, nodes, signer["cert"], ctx.now):
        held = _files(signer["cert"], *issue(signer["key"], signer["cert"], ctx.draw(), nodes, ctx.now))
    secret = kube.secret(ctx, ctx.name("migration"), held)
    kept = Step(name="MigrationAuthority", objects=(authority,), guarded=True)
    return Migration(
        steps=(kept, Step(name="Migration", objects=(secret,), after=(kept,), guarded=True)),
        mounts=(kube.folder("migration", secret["metadata"]["name"], FOLDER, mode=0o400),),
        wake=due(held["server-cert.pem"]),
    )


def _authority(ctx: Context[NovaSpec]) -> Object:
    """Secret `<owner>-migration-ca`, made once."""
    name = ctx.name("migration-ca")
    held = kube.secret_data(ctx.children.get(("Secret", kube.fitting(name))))
    if not {"key", "cert"} <= held.keys():
        key, cert = authority(ctx.draw(), f"{ctx.namespace}/{ctx.owner} migration", ctx.now)
        held = {"key": key, "cert": cert}
    return kube.secret(ctx, name, held)


def _addresses(pods: Sequence[Object]) -> set[str]:
    """Addresses of the nodes that run libvirt."""
    ours = (pod for pod in pods if pod["metadata"].get("labels", {}).get(kube.COMPONENT) == LIBVIRT)
    return {pod["status"]["podIP"] for pod in ours if pod["status"].get("podIP")}


def _good(held: Mapping[str, str], nodes: set[str], cert: str, now: datetime) -> bool:
    """Whether a certificate speaks of all these nodes, is by this authority, and has a third of its life left."""
    if held.get("cacert.pem") != cert or "server-cert.pem" not in held:
        return False
    names = _read(held["server-cert.pem"]).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return nodes <= known and now < due(held["server-cert.pem"])


def due(cert: str) -> datetime:
    """When two thirds of a certificate's life are over."""
    found = _read(cert)
    return found.not_valid_before_utc + (found.not_valid_after_utc - found.not_valid_before_utc) * 2 / 3


def _files(authority: str, key: str, cert: str) -> dict[str, str]:
    """Each under the names libvirt and QEMU look for; a node is now the one that calls, now the one that is called."""
    certs = dict.fromkeys(("server-cert.pem", "client-cert.pem", "clientcert.pem"), cert)
    keys = dict.fromkeys(("server-key.pem", "client-key.pem", "clientkey.pem"), key)
    return {"cacert.pem": authority, "ca-cert.pem": authority, **certs, **keys}


def authority(drawn: str, name: str, now: datetime) -> tuple[str, str]:
    """(key, certificate) of an authority, in PEM; the key follows what was drawn."""
    key, subject = _key("authority", drawn), _name(name)
    built = _builder(subject, subject, key, now, AUTHORITY, drawn)
    usage = _usage(signs=True)
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _private(key), _pem(built.add_extension(usage, critical=True).sign(key, None))


def issue(key: str, cert: str, drawn: str, nodes: set[str], now: datetime) -> tuple[str, str]:
    """(key, certificate) of the nodes with these addresses, by that authority, in PEM."""
    signer = serialization.load_pem_private_key(key.encode(), None)
    assert isinstance(signer, Ed25519PrivateKey)
    own = _key("node", drawn)
    # A name that nobody calls, since there must be one before there are nodes.
    names: list[x509.GeneralName] = [x509.DNSName("compute.invalid")]
    names += [x509.IPAddress(ip_address(node)) for node in sorted(nodes)]
    built = (
        _builder(_name("compute"), _read(cert).subject, own, now, LEAF, drawn)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return _private(own), _pem(built.sign(signer, None))


def _key(purpose: str, drawn: str) -> Ed25519PrivateKey:
    """A key that follows what was drawn; signatures by such keys follow from what is signed, so plans stay pure."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"{purpose} {drawn}".encode()).digest())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PrivateKey, now: datetime, life: timedelta, drawn: str
) -> x509.CertificateBuilder:
    serial = int.from_bytes(hashlib.sha256(f"{drawn}{now}".encode()).digest()[:16], "big") >> 1
    since = now.replace(microsecond=0) - _SKEW
    named = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return named.serial_number(serial or 1).not_valid_before(since).not_valid_after(since + life)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        # libvirt asks for it whatever kind the key is of.
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _read(cert: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(cert.encode())


def _pem(cert: x509.Certificate) -> str:
    return cert.public_bytes(serialization.Encoding.PEM).decode()


def _private(key: Ed25519PrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
