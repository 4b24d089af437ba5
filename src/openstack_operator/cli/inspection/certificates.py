"""Certificates of a cloud: the time at which each ends, and the program that renews it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from ...kube import MANAGED_BY, secret_data
from ...plan import Object
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.kinds import SECRET
from ..terminal import Color
from .snapshot import list_objects

if TYPE_CHECKING:
    from cryptography import x509

_SOON = timedelta(days=30)
"""Time before its end at which a certificate that its user renews is marked."""
_URGENT = timedelta(days=7)
"""Time before its end at which a certificate that its user renews, or that was not renewed in time, is marked red."""
_LATE = 10
"""A certificate whose life is over but for one of so many parts was not renewed in time, as for the alert
`OpenStackCertificateExpires`: that is due after two thirds of its life."""
_READ_AGAIN = 300.0
"""Seconds between two lists of Secrets: a list has the content of all Secrets of a namespace."""
_ISSUER = "cert-manager.io/issuer-name"
"""Annotation of Secrets that cert-manager keeps."""


@dataclass(frozen=True)
class Certificate:
    """A certificate in a Secret."""

    secret: str
    owner: str
    """`Kind/name` of its resource; empty if it has none."""
    ends: datetime
    life: timedelta
    """Time from its beginning to its end."""
    renewed_by: str
    """The program that renews it; empty if its user does."""

    def is_late(self, now: datetime) -> bool:
        """Return True if its program did not renew it in time, or its user should renew it."""
        return self.ends - now < (self.life / _LATE if self.renewed_by else _SOON)


class Certificates:
    """The certificates of the resources of a namespace, for one look or many."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._certificates: Sequence[Certificate] | None = ()
        self._due = clock()

    async def read(self, client: Client, namespace: str, resources: Sequence[Object]) -> Sequence[Certificate] | None:
        """Return the certificates, the first to end first. None if the user may not list Secrets. Secrets are listed
        again only after some minutes.
        """
        if self._clock() >= self._due:
            self._certificates = await _read(client, namespace, resources)
            self._due = self._clock() + _READ_AGAIN
        return self._certificates


async def _read(client: Client, namespace: str, resources: Sequence[Object]) -> Sequence[Certificate] | None:
    refusals: list[str] = []
    secrets = await list_objects(client, SECRET, namespace, {}, refusals)
    if refusals:
        return None
    names = {name for each in resources for name in _secret_names(each.get("spec"))}
    return certificates_in([each for each in secrets if _is_ours(each) or each["metadata"]["name"] in names])


def certificates_in(secrets: Sequence[Object]) -> list[Certificate]:
    """Return the certificates in Secrets, the first to end first. Authorities that a program renews are left out: it
    replaces them long before they end.
    """
    from cryptography import x509  # noqa: PLC0415  (only for clouds with certificates)

    certificates: list[Certificate] = []
    for secret in secrets:
        if "tls.crt" not in (secret.get("data") or {}):
            continue
        try:
            chain = x509.load_pem_x509_certificates(secret_data(secret)["tls.crt"].encode())
            renewed_by = _renewed_by(secret)
            if renewed_by and _is_authority(chain[0]):
                continue
        except (ValueError, x509.DuplicateExtension):
            continue
        # A chain is good as long as all of its certificates are.
        soonest = min(chain, key=lambda each: each.not_valid_after_utc)
        owner = next((each for each in secret["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        certificates.append(
            Certificate(
                secret["metadata"]["name"],
                f"{owner['kind']}/{owner['name']}" if owner else "",
                soonest.not_valid_after_utc,
                soonest.not_valid_after_utc - soonest.not_valid_before_utc,
                renewed_by,
            )
        )
    return sorted(certificates, key=lambda each: (each.ends, each.secret))


def certificate_lines(certificates: Sequence[Certificate] | None, now: datetime) -> Iterator[tuple[str, Color | None]]:
    """Yield which certificate of those that programs renew ends first, or was not renewed in time, and which one of
    those that the user renews; nothing for a cloud without certificates.
    """
    if certificates is None:
        yield "certificates: not shown, because you may not list Secrets", None
        return
    renewed = [each for each in certificates if each.renewed_by]
    late = [each for each in renewed if each.is_late(now)]
    if late:
        yield from _lines(f"certificates: {len(late)} of {len(renewed)} not renewed in time; the first", late[0], now)
    elif renewed:
        yield from _lines(f"certificates: {_first_of(renewed)}", renewed[0], now)
    if by_user := [each for each in certificates if not each.renewed_by]:
        yield from _lines(f"your certificates: {_first_of(by_user)}", by_user[0], now)


def _lines(head: str, certificate: Certificate, now: datetime) -> Iterator[tuple[str, Color | None]]:
    """Yield when a certificate ends and who renews it, and the Secret that it is in."""
    remaining = certificate.ends - now
    renewal = f"{certificate.renewed_by} renews it" if certificate.renewed_by else "renew it yourself"
    is_late = certificate.is_late(now)
    color = Color.RED if is_late and remaining < _URGENT else Color.YELLOW if is_late else None
    owner = f" of {certificate.owner}" if certificate.owner else ""
    yield f"{head} {_end(certificate, remaining)}; {renewal}:", color
    yield f"  Secret/{certificate.secret}{owner}", color


def _first_of(certificates: Sequence[Certificate]) -> str:
    return f"the first of {len(certificates)}" if len(certificates) > 1 else "the only one"


def _end(certificate: Certificate, remaining: timedelta) -> str:
    day = certificate.ends.astimezone(UTC).date().isoformat()
    if remaining <= timedelta():
        return f"ended on {day}"
    days = remaining.days
    count = "less than a day" if days < 1 else "1 day" if days == 1 else f"{days} days"
    return f"ends in {count}, on {day}"


def _is_authority(certificate: x509.Certificate) -> bool:
    """Return True for a certificate that signs others. Raises ValueError for one that cannot be read."""
    from cryptography import x509  # noqa: PLC0415  (only for clouds with certificates)

    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _renewed_by(secret: Object) -> str:
    if _ISSUER in (secret["metadata"].get("annotations") or {}):
        return "cert-manager"
    return "the operator" if _is_ours(secret) else ""


def _is_ours(secret: Object) -> bool:
    return (secret["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") == MANAGED_BY


def _secret_names(value: Any) -> Iterator[str]:
    """Yield the names of Secrets that a spec refers to, such as `caSecretRef.name` and `ingress.secretName`."""
    if isinstance(value, Mapping):
        for field, inner in cast("Mapping[str, Any]", value).items():
            if field.lower().endswith("secretref") and isinstance(inner, Mapping):
                yield str(cast("Mapping[str, Any]", inner).get("name", ""))
            elif field.lower().endswith("secretname") and isinstance(inner, str):
                yield inner
            yield from _secret_names(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _secret_names(inner)
