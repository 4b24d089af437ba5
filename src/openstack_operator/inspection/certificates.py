"""Certificates of a cloud: the time at which each ends, and the program that renews it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from ..kube import MANAGED_BY, secret_data
from ..plan import Object
from ..runtime.client import Client
from ..runtime.kinds import SECRET
from ..terminal import Color
from .snapshot import list_objects

_SOON = timedelta(days=30)
"""Time before its end at which a certificate that its user renews is marked."""
_LATE = timedelta(days=7)
"""The same for each certificate, as for the alert `OpenStackCertificateExpires`."""
_ISSUER = "cert-manager.io/issuer-name"
"""Annotation of Secrets that cert-manager keeps."""


@dataclass(frozen=True)
class Certificate:
    """A certificate in a Secret."""

    secret: str
    owner: str
    """`Kind/name` of its resource; empty if it has none."""
    ends: datetime
    renewed_by: str
    """The program that renews it; empty if its user does."""


async def read_certificates(
    client: Client, namespace: str, resources: Sequence[Object]
) -> Sequence[Certificate] | None:
    """Return the certificates of the resources, the first to end first. None if the user may not list Secrets."""
    refusals: list[str] = []
    secrets = await list_objects(client, SECRET, namespace, {}, refusals)
    if refusals:
        return None
    names = {name for each in resources for name in _secret_names(each.get("spec"))}
    return certificates_in([each for each in secrets if _is_ours(each) or each["metadata"]["name"] in names])


def certificates_in(secrets: Sequence[Object]) -> list[Certificate]:
    """Return the certificates in Secrets, the first to end first. Authorities are left out: the operator replaces them
    before they end, and a bundle has old ones.
    """
    from cryptography import x509  # noqa: PLC0415  (only for clouds with certificates)

    certificates: list[Certificate] = []
    for secret in secrets:
        if "tls.crt" not in (secret.get("data") or {}):
            continue
        try:
            chain = x509.load_pem_x509_certificates(secret_data(secret)["tls.crt"].encode())
        except ValueError:
            continue
        owner = next((each for each in secret["metadata"].get("ownerReferences") or () if each.get("controller")), None)
        certificates.append(
            Certificate(
                secret["metadata"]["name"],
                f"{owner['kind']}/{owner['name']}" if owner else "",
                min(each.not_valid_after_utc for each in chain),
                _renewed_by(secret),
            )
        )
    return sorted(certificates, key=lambda each: (each.ends, each.secret))


def certificate_lines(certificates: Sequence[Certificate] | None, now: datetime) -> Iterator[tuple[str, Color | None]]:
    """Yield which certificate ends first and who renews it; nothing for a cloud without certificates."""
    if certificates is None:
        yield "certificates: not shown, because you may not list Secrets", None
        return
    if not certificates:
        return
    first = certificates[0]
    words = f"the first of {len(certificates)}" if len(certificates) > 1 else "the only one"
    day = first.ends.astimezone(UTC).date().isoformat()
    remaining = first.ends - now
    when = f"ends in {remaining.days} days, on {day}" if remaining > timedelta() else f"ended on {day}"
    renewal = f"{first.renewed_by} renews it" if first.renewed_by else "renew it yourself"
    is_late = remaining < (_LATE if first.renewed_by else _SOON)
    color = Color.RED if remaining < _LATE else Color.YELLOW if is_late else None
    yield f"certificates: {words} {when}; {renewal}:", color
    yield f"  Secret/{first.secret}{f' of {first.owner}' if first.owner else ''}", color


def _renewed_by(secret: Object) -> str:
    if _ISSUER in (secret["metadata"].get("annotations") or {}):
        return "cert-manager"
    return "the operator" if _is_ours(secret) else ""


def _is_ours(secret: Object) -> bool:
    return (secret["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") == MANAGED_BY


def _secret_names(value: Any) -> Iterator[str]:
    """Yield the names of Secrets that a spec refers to."""
    if isinstance(value, Mapping):
        for field, inner in cast("Mapping[str, Any]", value).items():
            if field.lower().endswith("secretref") and isinstance(inner, Mapping):
                yield str(cast("Mapping[str, Any]", inner).get("name", ""))
            yield from _secret_names(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _secret_names(inner)
