"""Certificates that cert-manager makes: what is ordered, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from ipaddress import ip_address
from typing import Any

from .. import kube, pki
from ..plan import READY, Context, Object, Verdict, failed, key, progressing

_API, _TYPE = "cert-manager.io/v1", "kubernetes.io/tls"


@dataclass(frozen=True, kw_only=True)
class Ordered:
    """A Certificate of cert-manager's, and the Secret it wrote."""

    issuer: str
    objects: tuple[Object, ...]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """`tls.crt`, `tls.key`, and `ca.crt` where the issuer tells it; nothing before the first one is there."""
    verdict: Verdict = READY
    wake: datetime | None = None
    """When what was issued ends."""


def ordered(
    ctx: Context[Any], name: str, by: Mapping[str, str], wanted: pki.Wanted, path: str, *, renewed: float = 2 / 3
) -> Ordered:
    """Certificate `<owner>-<name>` by what a PKI publishes of its issuer, made anew when that part of its life is over;
    `path` is the field of the spec that asks for it. Raises SpecError for names that are not to be had there.
    """
    check_issuer(ctx, path, by["issuerKind"], by["issuerGroup"], by["issuerName"], wanted.names)
    secret, issuer = kube.fitting(ctx.name(name, "issued")), f"{by['issuerKind']}/{by['issuerName']}"
    minutes = int(by["certificateMinutes"])
    uses = ["digital signature", "key encipherment", "server auth", *(["client auth"] if wanted.calls else [])]
    order = kube.obj(
        ctx,
        "Certificate",
        ctx.name(name),
        _API,
        spec={
            "secretName": secret,
            # By which it is ours to read.
            "secretTemplate": {"labels": kube.labels(ctx)},
            "issuerRef": {"name": by["issuerName"], "kind": by["issuerKind"], "group": by["issuerGroup"]},
            **_sorted(wanted.names),
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
        wake=pki.change(pair, ctx.now) if whole and not pki.unreadable(pair) else None,
    )


def check_issuer(ctx: Context[Any], path: str, kind: str, group: str, name: str, hosts: Iterable[str]) -> None:
    """Raises SpecError for names that the namespace may not have of this issuer: one of the whole cluster certifies
    whatever it is asked for, for others, too.
    """
    if serves_cluster(kind, group):
        ctx.permissions.check_issuer_hosts(path, ctx.namespace, ctx.domain, f"{kind}/{name}", hosts)


def serves_cluster(kind: str, group: str) -> bool:
    """Whether an issuer may be one of all namespaces; of which kinds of others are, only cert-manager's are known."""
    return (kind, group) != ("Issuer", "cert-manager.io")


def _sorted(names: frozenset[str]) -> dict[str, list[str]]:
    """Names and addresses, as cert-manager wants them apart."""
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
    """The Secret cert-manager made, so that it goes with who ordered it, unless cert-manager sees to that itself
    (--enable-certificate-owner-ref).
    """
    if (
        live is None
        or live.get("type") != _TYPE
        or any(ref.get("kind") == "Certificate" for ref in live["metadata"].get("ownerReferences") or ())
    ):
        return ()
    # Of this type it cannot be made without a certificate, which would be in cert-manager's way.
    return (kube.obj(ctx, "Secret", live["metadata"]["name"], type=_TYPE),)


def _verdict(live: Object | None, issuer: str, path: str, namespace: str) -> Verdict:
    """What cert-manager says of the order. Which of its own objects is missing or refuses stands in its requests."""
    if live is None:
        return progressing(f"not ordered from {issuer} yet")
    found = kube.conditions(live)
    ready, issuing = found.get("Ready", {}), found.get("Issuing", {})
    if not found:
        return progressing(
            f"{issuer}: nobody has looked at Certificate/{live['metadata']['name']}; does cert-manager run?"
        )
    if issuing.get("status") == "False" and issuing.get("reason") == "Failed":
        return failed(f"{path}: {issuer} refused it: {issuing.get('message', '')}", "IssuerFailed")
    current = ready.get("observedGeneration", 0) >= live["metadata"].get("generation", 0)
    if ready.get("status") == "True" and current:
        return READY
    text = ready.get("message") or "not issued yet"
    return progressing(
        f"{issuer}: {text}; if it stays so, see whether there is such an issuer:"
        f" kubectl get certificaterequests.cert-manager.io -n {namespace}"
    )
