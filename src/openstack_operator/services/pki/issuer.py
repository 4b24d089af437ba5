"""A PKI whose certificates cert-manager makes: one of its own shows whether the issuer works, and whom to trust."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ... import kube, parts, pki
from ...api import seconds
from ...plan import READY, Context, Incomplete, Plan, SpecError, Step, failed
from .model import CERT_MANAGER_LEAST, IssuerRef, PKISpec


def given(ctx: Context[PKISpec]) -> str:
    """Authorities the user wants to be trusted besides. Raises Incomplete where they are none."""
    ref = ctx.spec.ca_bundle_secret_ref
    found = ctx.secrets.get(ref.name, {}).get("ca.crt", "") if ref else ""
    if ref and not pki.each(found):
        raise Incomplete("spec.caBundleSecretRef", f"Secret {ref.name!r} has no certificate under the key ca.crt")
    return found


def plan(ctx: Context[PKISpec], issuer: IssuerRef, before: Plan | None) -> Plan:
    """The certificate that is ordered for nobody, and the bundle; nothing is published before there is one. An
    authority of our own that was there `before` stays as it is until then. Raises SpecError for certificates that
    cert-manager does not make.
    """
    lifetime = seconds(ctx.spec.certificate_lifetime)
    if lifetime < timedelta(hours=1):
        # The API server does not look again at what it let in by an older definition.
        raise SpecError("spec.certificateLifetime", CERT_MANAGER_LEAST)
    told = {
        "issuerName": issuer.name,
        "issuerKind": issuer.kind,
        "issuerGroup": issuer.group,
        "certificateMinutes": str(int(lifetime.total_seconds() // 60)),
    }
    wanted = pki.Wanted(common=ctx.owner, names=frozenset({ctx.host(kube.fitting(ctx.name("probe")))}))
    # Renewed before those of others are, so that who vouches for them is known by then.
    order = parts.ordered(ctx, "probe", told, wanted, "spec.issuerRef", renewed=1 / 3)
    bundle = kube.fitting(ctx.name("bundle"))
    known = kube.secret_data(ctx.children.get(("Secret", bundle))).get("ca.crt", "")
    trusted = pki.bundle(
        # Whom an issuer let vouch before stays trusted until its time is over: certificates by it are in use.
        [*(sorted(pki.each(known))), given(ctx), order.files.get("ca.crt", "")],
        ctx.now,
    )
    wrong = _wrong(order.files, wanted, trusted, ctx, issuer)
    probe = Step(
        name="Issuer", objects=order.objects, verdict=failed(wrong, "IssuerFailed") if wrong else order.verdict
    )
    if (wrong or not order.files) and before:
        return Plan(probe, *before, wake=before.outcome.wake, published=before.outcome.published)
    if wrong or not order.files:
        # What was told before holds: certificates there are stay good.
        objects = (kube.secret(ctx, bundle, {"ca.crt": known}),) if known else ()
    else:
        objects = (kube.secret(ctx, bundle, {"ca.crt": trusted}),)
    step = Step(name="Bundle", objects=objects, verdict=None if objects else READY)
    return Plan(probe, step, wake=order.wake, published={"bundleSecret": bundle, **told} if objects else {})


def _wrong(files: Mapping[str, str], wanted: pki.Wanted, trusted: str, ctx: Context[Any], issuer: IssuerRef) -> str:
    """What keeps the certificates of this issuer from being of use."""
    if not files:
        return ""
    what = f"{issuer.kind}/{issuer.name}"
    if files.get("ca.crt") and pki.each(files["ca.crt"]) == pki.each(files["tls.crt"]):
        return f"{what} lets each certificate vouch for itself, and nobody could trust them all; use one of kind ca"
    known = [trusted] if trusted else []
    found = pki.fault(pki.Pair(files["tls.key"], files["tls.crt"]), wanted, ctx.now, authorities=known)
    if found and not files.get("ca.crt"):
        return f"{what} hands out no ca.crt; put its authority into a Secret and name that in spec.caBundleSecretRef"
    return f"what {what} issued {found}" if found else ""
