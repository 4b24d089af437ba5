"""Certificates that cert-manager makes: requests for them, and their results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from typing import Any

from ... import kube, pki
from ...plan import READY, Context, Kind, Object, Verdict, failed, key, progressing

CERT_MANAGER = "cert-manager.io"
_API, _TYPE = f"{CERT_MANAGER}/v1", "kubernetes.io/tls"
ISSUERS = {kind: Kind(_API, kind, f"{kind.lower()}s", project="cert-manager") for kind in ("Issuer", "ClusterIssuer")}
"""Kinds of issuers, of which no plan makes any."""
KINDS = (Kind(_API, "Certificate", "certificates", project="cert-manager"),)
"""Kinds by which a plan requests certificates of an issuer."""


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """A Certificate of cert-manager, and the Secret it wrote."""

    issuer: str
    objects: tuple[Object, ...]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """`tls.crt`, `tls.key`, and `ca.crt` if the issuer provides it; empty before the first one exists."""
    verdict: Verdict = READY
    wake: datetime | None = None
    """Time at which the certificate ends."""


def ordered(
    ctx: Context[Any], name: str, by: Mapping[str, str], request: pki.Request, path: str, *, renewed: float = 2 / 3
) -> Ordered:
    """Return Certificate `<owner>-<name>` from the issuer that a PKI publishes, renewed when the part `renewed` of its
    life is over; `path` is the field of the spec that asks for it. Raises SpecError for names the namespace may not
    have.
    """
    check_issuer(ctx, path, by["issuerKind"], by["issuerGroup"], by["issuerName"], request.names)
    secret, issuer = ctx.name(name, "issued"), f"{by['issuerKind']}/{by['issuerName']}"
    minutes = int(by["certificateMinutes"])
    uses = ["digital signature", "key encipherment", "server auth", *(["client auth"] if request.calls else [])]
    order = kube.obj(
        ctx,
        "Certificate",
        ctx.name(name),
        _API,
        spec={
            "secretName": secret,
            # The operator may only read Secrets with these labels.
            "secretTemplate": {"labels": kube.labels(ctx)},
            "issuerRef": {"name": by["issuerName"], "kind": by["issuerKind"], "group": by["issuerGroup"]},
            **_sorted(request.names),
            "duration": f"{minutes}m",
            "renewBefore": f"{max(5, int(minutes * (1 - renewed)))}m",
            "usages": uses,
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always", "encoding": "PKCS8"},
            "revisionHistoryLimit": 1,
        },
    )
    live = ctx.children.get(("Secret", secret))
    files = kube.secret_data(live)
    whole = bool(files.get("tls.crt") and files.get("tls.key"))
    pair = pki.Pair(files.get("tls.key", ""), files.get("tls.crt", ""))
    return Ordered(
        issuer=issuer,
        objects=(kube.annotated(order, {kube.FIELD: path}), *_adopted(ctx, live)),
        files={key: files[key] for key in ("tls.crt", "tls.key", "ca.crt") if files.get(key)} if whole else {},
        verdict=_verdict(ctx.children.get(key(order)), issuer, path, ctx.namespace),
        wake=pki.change(pair, ctx.now) if whole and not pki.read_error(pair) else None,
    )


def check_issuer(ctx: Context[Any], path: str, kind: str, group: str, name: str, hosts: Iterable[str]) -> None:
    """Raise SpecError for names that the namespace may not have of this issuer: an issuer of the whole cluster
    certifies any name, also those of other namespaces.
    """
    if serves_cluster(kind, group):
        ctx.permissions.check_issuer_hosts(path, ctx.namespace, ctx.domain, f"{kind}/{name}", hosts)


def serves_cluster(kind: str, group: str) -> bool:
    """Return True unless an issuer serves only its namespace, which is known only of cert-manager's kind Issuer."""
    return (kind, group) != ("Issuer", CERT_MANAGER)


def _sorted(names: frozenset[str]) -> dict[str, list[str]]:
    """Return names and addresses, in the separate fields of a Certificate."""
    addresses = sorted(name for name in names if _is_address(name))
    return {
        "dnsNames": sorted(names - set(addresses)),
        **({"ipAddresses": addresses} if addresses else {}),
    }


def _is_address(name: str) -> bool:
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


def _adopted(ctx: Context[Any], live: Object | None) -> tuple[Object, ...]:
    """Return the Secret that cert-manager made, adopted so that it is deleted with the owner of the Certificate, unless
    cert-manager does that itself (--enable-certificate-owner-ref).
    """
    if (
        live is None
        or live.get("type") != _TYPE
        or any(ref.get("kind") == "Certificate" for ref in live["metadata"].get("ownerReferences") or ())
    ):
        return ()
    # Before cert-manager makes it, a Secret of this type would need a certificate, and would block cert-manager.
    return (kube.obj(ctx, "Secret", live["metadata"]["name"], type=_TYPE),)


def _verdict(live: Object | None, issuer: str, path: str, namespace: str) -> Verdict:
    """Return the state of the Certificate. Its CertificateRequests name an issuer that is missing or refuses."""
    if live is None:
        return progressing(f"not ordered from {issuer} yet")
    conditions = kube.conditions(live)
    ready, issuing = conditions.get("Ready", {}), conditions.get("Issuing", {})
    if not conditions:
        return progressing(
            f"{issuer}: cert-manager has not processed Certificate/{live['metadata']['name']}; check that it runs"
        )
    if issuing.get("status") == "False" and issuing.get("reason") == "Failed":
        return failed(f"{path}: {issuer} refused it: {issuing.get('message', '')}", "IssuerFailed")
    current = ready.get("observedGeneration", 0) >= live["metadata"].get("generation", 0)
    if ready.get("status") == "True" and current:
        return READY
    text = ready.get("message") or "not issued yet"
    return progressing(
        f"{issuer}: {text}; if this lasts, check the issuer and its"
        f" requests: kubectl get certificaterequests.cert-manager.io -n {namespace}"
    )
