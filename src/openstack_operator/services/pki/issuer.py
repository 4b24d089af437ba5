"""A PKI whose certificates cert-manager issues: a probe shows whether the issuer works, and its authority."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ... import kube, pki
from ...api import seconds
from ...parts.secrets.issued import CERT_MANAGER, ISSUERS, ordered
from ...plan import READY, Context, Incomplete, Kind, Plan, SpecError, State, Step, Verdict, failed
from .model import CERT_MANAGER_LEAST, IssuerRef, PKISpec


def extra_authorities(ctx: Context[PKISpec]) -> str:
    """Return the authorities that the spec adds. Raise Incomplete if its Secret has no certificate."""
    ref = ctx.spec.ca_bundle_secret_ref
    authorities = ctx.secrets.get(ref.name, {}).get("ca.crt", "") if ref else ""
    if ref and not pki.split(authorities):
        missing = "no certificate under the key 'ca.crt'" if authorities else "no key 'ca.crt'"
        raise Incomplete("spec.caBundleSecretRef", f"Secret {ref.name!r} has {missing}")
    return authorities


def allowed_kinds(ctx: Context[PKISpec]) -> dict[str, str]:
    """Return what the contract says about kinds that may have certificates: nothing if all may."""
    return {"allowedKinds": ",".join(sorted(set(ctx.spec.allowed_kinds)))} if ctx.spec.allowed_kinds else {}


def to_read(ctx: Context[PKISpec]) -> tuple[Kind, str | None, str] | None:
    """Return kind, namespace and name of the issuer that the operator reads; None for those of other groups."""
    ref = ctx.spec.issuer_ref
    if ref is None or ref.group != CERT_MANAGER:
        return None
    return ISSUERS[ref.kind], ctx.namespace if ref.kind == "Issuer" else None, ref.name


def is_public(ctx: Context[PKISpec]) -> bool:
    """Return True if the issuer is a public authority (ACME). It certifies no name inside the cluster: no authority on
    the internet may (Baseline Requirements of the CA/Browser Forum, 4.2.2).
    """
    return "acme" in (ctx.facts.get("issuer") or {}).get("spec", {})


def beside(issuer: IssuerRef, internal: Plan) -> Plan:
    """Return the plan for `internal` names, with an issuer beside its authority that certifies public names alone."""
    label = f"{issuer.kind}/{issuer.name}"
    text = f"{label} (ACME) certifies only public names; this PKI's authority certifies names inside the cluster"
    published = {"publicIssuerName": issuer.name, "publicIssuerKind": issuer.kind}
    step = Step(name="Issuer", verdict=Verdict(State.READY, text, "PublicNames"))
    return Plan(step, *internal, wake=internal.outcome.wake, published={**internal.outcome.published, **published})


def plan(ctx: Context[PKISpec], issuer: IssuerRef, before: Plan | None) -> Plan:
    """Return the probe, a certificate that no server uses, and the bundle, which the PKI publishes once it exists.
    Until then, an authority of our own that existed `before` does not change. Raise SpecError for certificates that
    cert-manager does not issue.
    """
    lifetime = seconds(ctx.spec.certificate_lifetime)
    if lifetime < timedelta(hours=1):
        # The API server does not validate again what it accepted with an older definition.
        raise SpecError("spec.certificateLifetime", CERT_MANAGER_LEAST)
    contract = {
        "issuerName": issuer.name,
        "issuerKind": issuer.kind,
        "issuerGroup": issuer.group,
        "certificateMinutes": str(int(lifetime.total_seconds() // 60)),
        **allowed_kinds(ctx),
    }
    request = pki.Request(common=ctx.owner, names=frozenset({ctx.host(ctx.name("probe"))}))
    # Renewed before the certificates of services are, so that the bundle has their next authority by then.
    order = ordered(ctx, "probe", contract, request, "spec.issuerRef", renewed=1 / 3)
    bundle = ctx.name("bundle")
    previous = ctx.secret("bundle").get("ca.crt", "")
    trusted = pki.bundle(
        # A previous authority of the issuer stays trusted until it expires: certificates by it are in use.
        [*(sorted(pki.split(previous))), extra_authorities(ctx), order.files.get("ca.crt", "")],
        ctx.now,
    )
    fault = _fault(order.files, request, trusted, ctx, issuer)
    probe = Step(
        name="Issuer", objects=order.objects, verdict=failed(fault, "IssuerFailed") if fault else order.verdict
    )
    if (fault or not order.files) and before:
        return Plan(probe, *before, wake=before.outcome.wake, published=before.outcome.published)
    if fault or not order.files:
        # The previous bundle stays: existing certificates remain valid.
        objects = (kube.secret(ctx, bundle, {"ca.crt": previous}),) if previous else ()
    else:
        objects = (kube.secret(ctx, bundle, {"ca.crt": trusted}),)
    step = Step(name="Bundle", objects=objects, verdict=None if objects else READY)
    return Plan(probe, step, wake=order.wake, published={"bundleSecret": bundle, **contract} if objects else {})


def _fault(files: Mapping[str, str], request: pki.Request, trusted: str, ctx: Context[Any], issuer: IssuerRef) -> str:
    """Return the fault of this issuer's certificates; empty if they are usable."""
    if not files:
        return ""
    label = f"{issuer.kind}/{issuer.name}"
    if files.get("ca.crt") and pki.split(files["ca.crt"]) == pki.split(files["tls.crt"]):
        return f"{label} issues self-signed certificates, which clients cannot trust; use an issuer of kind ca"
    authorities = [trusted] if trusted else []
    fault = pki.fault(pki.Pair(files["tls.key"], files["tls.crt"]), request, ctx.now, authorities=authorities)
    if fault and not files.get("ca.crt"):
        return f"{label} provides no ca.crt; store its authority in a Secret, and set spec.caBundleSecretRef"
    return f"the certificate from {label} {fault}" if fault else ""
