"""PKI: an authority whose key nobody mounts, and what others need to trust it."""

from __future__ import annotations

from datetime import timedelta

from ... import kube, pki
from ...plan import Context, Plan, Step, failed
from .model import PKISpec


def plan(ctx: Context[PKISpec]) -> Plan:
    """Everything a PKI is made of; published: authoritySecret (keys `tls.crt`, `tls.key`), bundleSecret (key
    `ca.crt`) and certificateMinutes.
    """
    authority = kube.fitting(ctx.name("authority"))
    held = kube.secret_data(ctx.children.get(("Secret", authority)) or ctx.lost.get(authority))
    if not {"tls.crt", "tls.key"} <= held.keys():
        life = timedelta(minutes=ctx.spec.authority_minutes)
        made = pki.authority(ctx.draw(), f"{ctx.namespace}/{ctx.owner}", ctx.now, life)
        held = {"tls.crt": made.cert, "tls.key": made.key}
    # Whoever trusts it would trust nobody else until all of them have been told of another one.
    kept = kube.irreplaceable(kube.secret(ctx, authority, held))
    bundle = kube.secret(ctx, ctx.name("bundle"), {"ca.crt": held["tls.crt"]})
    ends = pki.Pair(held["tls.key"], held["tls.crt"]).ends
    over = (
        f"it ended at {ends:%Y-%m-%d %H:%M} UTC, and with it every certificate by it; delete this PKI, and make it anew"
    )
    signs = Step(
        name="Authority",
        objects=(kept,),
        guarded=True,
        verdict=failed(over, "InvalidSpec") if ctx.now >= ends else None,
    )
    return Plan(
        signs,
        Step(name="Bundle", objects=(bundle,), after=(signs,)),
        wake=ends if ctx.now < ends else None,
        published={
            "authoritySecret": authority,
            "bundleSecret": bundle["metadata"]["name"],
            "certificateMinutes": str(ctx.spec.certificate_minutes),
        },
    )
