"""Certificates as values: authorities, certificates by them, and checks of both.

Keys and serial numbers follow from a random seed, and signatures from their content (RFC 6979), so that the same plan
makes the same files. Keys are P-256, which all TLS libraries here take: OpenSSL, GnuTLS, Erlang and browsers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from itertools import pairwise

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY, LEAF = timedelta(days=3650), timedelta(days=365)
"""Default lives of certificates."""
_SKEW = timedelta(hours=1)
"""Time by which clocks of other machines may be behind."""
# FIPS 186-5, appendix A.2: the number of keys.
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
Private = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Pair:
    """A private key and its certificate, followed by the intermediate certificates; both in PEM."""

    key: str
    cert: str

    @property
    def due(self) -> datetime:
        """Time at which two thirds of the certificate's life are over. Raises ValueError for an invalid one."""
        cert = _read(self.cert)
        return cert.not_valid_before_utc + (cert.not_valid_after_utc - cert.not_valid_before_utc) * 2 / 3

    @property
    def ends(self) -> datetime:
        """Time at which the certificate expires. Raises ValueError for an invalid one."""
        return ends(self.cert)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Names and uses of a certificate."""

    common: str
    """Common name, for people."""
    names: frozenset[str]
    """DNS names, with wildcards as they are, and IP addresses, by which clients call its owner."""
    calls: bool = False
    """True if its owner presents it as a client."""
    serves: bool = True
    """True if its owner presents it as a server."""
    life: timedelta = LEAF


def authority(seed: str, name: str, now: datetime, life: timedelta = AUTHORITY) -> Pair:
    """Return an authority that signs leaves, but no other authority."""
    key, subject = _key("authority", seed), _name(name)
    builder = _builder(subject, subject, key, now, life, seed)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return Pair(_private(key), _signed(builder.add_extension(_usage(signs=True), critical=True), key))


def certificate(current: Pair | None, request: Request, signer: Pair, draw: Callable[[], str], now: datetime) -> Pair:
    """Return the current one while it is good and has a third of its life left; otherwise a new one by that
    authority.
    """
    good = current is not None and not fault(current, request, now, authorities=[signer.cert])
    # At the end of the authority's life a new certificate would last no longer.
    if current is not None and good and (now < current.due or current.ends >= signer.ends):
        return current
    return issue(signer, request, draw(), now)


def change(current: Pair, now: datetime) -> datetime | None:
    """Return the next time at which a certificate is due or expires; None where both are past."""
    return next((moment for moment in (current.due, current.ends) if moment > now), None)


def read_error(pair: Pair) -> str:
    """Return why a certificate and its key cannot be used; empty for a good pair."""
    try:
        is_same = _read(pair.cert).public_key() == _loaded(pair.key).public_key()
    except (ValueError, TypeError) as error:
        return str(error) or type(error).__name__
    return "" if is_same else "the certificate and the key do not match"


def issue(signer: Pair, request: Request, seed: str, now: datetime) -> Pair:
    """Return a new key and its certificate by that authority."""
    by, signer_key, leaf_key = _read(signer.cert), _loaded(signer.key), _key("leaf", seed)
    uses = [ExtendedKeyUsageOID.SERVER_AUTH] if request.serves else []
    uses += [ExtendedKeyUsageOID.CLIENT_AUTH] if request.calls else []
    # A certificate does not outlive its authority.
    life = min(request.life, by.not_valid_after_utc - now)
    builder = (
        _builder(_name(request.common), by.subject, leaf_key, now, life, seed)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        # This distinguishes two authorities of the same name while one replaces the other.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in sorted(request.names)]), critical=False)
    )
    return Pair(_private(leaf_key), _signed(builder, signer_key))


def fault(pair: Pair, request: Request, now: datetime, *, authorities: Iterable[str]) -> str:
    """Describe what is wrong with a certificate, in words that follow "the certificate …"; empty for a good one.

    One from another source must pass the same checks as one of ours.
    """
    try:
        cert, key = _read(pair.cert), _loaded(pair.key)
    except (ValueError, TypeError) as error:
        return f"cannot be read: {unreadable(error)}"
    if cert.public_key() != key.public_key():
        return "does not match its key"
    if untimely := _untimely(cert, now):
        return untimely
    if missing := sorted({_canonical(name) for name in request.names} - _names(cert)):
        return f"lacks {', '.join(missing)}"
    if request.calls and not calls(pair.cert):
        return "is for servers only; add the extended key usage clientAuth"
    return "" if is_trusted(pair.cert, authorities) else "is not signed by any of the authorities"


def unreadable(error: Exception) -> str:
    """Return why a text is no certificate and no key, without any part of it."""
    return "it has bytes that are not text" if isinstance(error, UnicodeError) else str(error)


def calls(cert: str) -> bool:
    """Return True if a client may present the certificate. Raises ValueError for an invalid one."""
    try:
        uses = _read(cert).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return bool({ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(uses))


def common(cert: str) -> str:
    """Return the common name of a certificate; empty if it has none. Raises ValueError for an invalid one."""
    attributes = _read(cert).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(attributes[0].value) if attributes else ""


def issuer(cert: str) -> str:
    """Return the issuer of a certificate, as an RFC 4514 name. Raises ValueError for an invalid one."""
    return _read(cert).issuer.rfc4514_string()


def ends(cert: str) -> datetime:
    """Return the time at which a certificate expires. Raises ValueError for an invalid one."""
    return _read(cert).not_valid_after_utc


def begins(text: str) -> list[datetime]:
    """Return the time at which each certificate in a text begins to be valid; none if they cannot be read."""
    try:
        return [cert.not_valid_before_utc for cert in x509.load_pem_x509_certificates(text.encode())]
    except ValueError:
        return []


def bundle(authorities: Iterable[str], now: datetime) -> str:
    """Return authorities one after the other, without expired ones; each once, in the given order."""
    certs = [cert for text in authorities if text for cert in x509.load_pem_x509_certificates(text.encode())]
    return "".join(dict.fromkeys(_pem(cert) for cert in certs if now < cert.not_valid_after_utc))


def split(text: str) -> frozenset[str]:
    """Return the certificates in a text, in PEM; none if they cannot be read."""
    try:
        return frozenset(_pem(cert) for cert in x509.load_pem_x509_certificates(text.encode()))
    except ValueError:
        return frozenset()


def is_trusted(chain: str, authorities: Iterable[str]) -> bool:
    """Return True if each certificate of a chain is issued by the next, and the last by an authority. Raises ValueError
    for invalid ones.
    """
    certs = x509.load_pem_x509_certificates(chain.encode())
    trusted = [cert for text in authorities for cert in x509.load_pem_x509_certificates(text.encode())]
    links = all(_by(cert, after) for cert, after in pairwise(certs))
    return links and any(certs[-1] == each or _by(certs[-1], each) for each in trusted)


def _untimely(cert: x509.Certificate, now: datetime) -> str:
    if now >= cert.not_valid_after_utc:
        return f"ended at {cert.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    return f"begins at {cert.not_valid_before_utc:%Y-%m-%d %H:%M} UTC" if now < cert.not_valid_before_utc else ""


def _by(cert: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        cert.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names(cert: x509.Certificate) -> set[str]:
    try:
        alternative_names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(address) for address in alternative_names.get_values_for_type(x509.IPAddress)}
    return addresses | set(alternative_names.get_values_for_type(x509.DNSName))


def _canonical(name: str) -> str:
    """Return the canonical form of an address; other names as they are."""
    general = _general(name)
    return str(general.value)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key(purpose: str, seed: str) -> ec.EllipticCurvePrivateKey:
    secret = int.from_bytes(hashlib.sha512(f"{purpose} {seed}".encode()).digest(), "big")
    return ec.derive_private_key(secret % (_ORDER - 1) + 1, ec.SECP256R1())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta, seed: str
) -> x509.CertificateBuilder:
    serial = int.from_bytes(hashlib.sha256(f"{seed}{now}".encode()).digest()[:16], "big") >> 1
    since = now.replace(microsecond=0)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    # A certificate of some minutes must not spend its life in the past.
    return (
        builder.serial_number(serial or 1).not_valid_before(since - min(_SKEW, life / 2)).not_valid_after(since + life)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        # libvirt requires it for every kind of key.
        key_encipherment=not signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _signed(builder: x509.CertificateBuilder, key: Private) -> str:
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return _pem(builder.sign(key, hashes.SHA256(), ecdsa_deterministic=True))
    return _pem(builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()))


def _loaded(key: str) -> Private:
    private_key = serialization.load_pem_private_key(key.encode(), None)
    if not isinstance(private_key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey):
        raise ValueError("this type of key does not work for TLS")
    return private_key


def _read(cert: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(cert.encode())


def _pem(cert: x509.Certificate) -> str:
    return cert.public_bytes(serialization.Encoding.PEM).decode()


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
