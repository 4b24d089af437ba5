"""PKI: the authority that signs, whose key no pod mounts, and the bundle that programs trust."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ... import kube, pki
from ...api import seconds
from ...parts.secrets.authorities import Authorities, next_state, read, signing_time
from ...plan import Context, Plan, State, Step, Verdict
from . import issuer, trust_rollout
from .model import PKISpec

_RECHECK = timedelta(seconds=15)
"""Interval at which the users are checked while one authority replaces another."""


def plan(ctx: Context[PKISpec]) -> Plan:
    """Return everything a PKI consists of; published: bundleSecret (key `ca.crt`), certificateMinutes, and either
    authoritySecret (keys `tls.crt`, `tls.key`: the one that signs now) or issuerName, issuerKind and issuerGroup; and
    allowedKinds, with commas between them, if the spec limits them; and publicIssuerName and publicIssuerKind beside an
    authority of its own, if that issuer certifies public names alone.
    """
    if ctx.spec.issuer_ref is None:
        return _authority_plan(ctx)
    if issuer.is_public(ctx):
        return issuer.beside(ctx.spec.issuer_ref, _authority_plan(ctx))
    return issuer.plan(ctx, ctx.spec.issuer_ref, _authority_plan(ctx) if _stored(ctx) else None)


def is_replacing_authority(ctx: Context[PKISpec]) -> bool:
    """Return True while one authority replaces another, for which the operator has to check the users."""
    state = _stored(ctx)
    return bool(state and (state.successor or state.predecessors))


def needs_served_certificates(ctx: Context[PKISpec]) -> bool:
    """Return True if only the certificates that servers show remain to be checked."""
    state = _stored(ctx)
    return bool(state and state.predecessors and not state.successor and _waits(ctx, state) == [trust_rollout.SERVED])


def _authority_plan(ctx: Context[PKISpec]) -> Plan:
    present = _stored(ctx) or _initial(ctx)
    waits = _waits(ctx, present)
    state = next_state(
        present,
        generation=ctx.spec.authority_generation,
        now=ctx.now,
        overlap=seconds(ctx.spec.overlap),
        blockers=waits,
        new_authority=lambda: _new_authority(ctx),
    )
    # A barrier: no program may trust an authority that is not stored yet.
    signs = Step(
        name="Authority",
        # With its key, all certificates could be issued again; without it, the existing ones cannot be verified.
        objects=(kube.irreplaceable(kube.secret(ctx, _secret(ctx), state.files)),),
        guarded=True,
        barrier=True,
    )
    trusted = pki.bundle([*state.trusted, issuer.extra_authorities(ctx)], ctx.now)
    bundle = kube.secret(ctx, ctx.name("bundle"), {"ca.crt": trusted})
    # A step's waits are known once it has begun.
    blockers = () if state != present else waits
    return Plan(
        signs,
        Step(name="Bundle", objects=(bundle,), after=(signs,)),
        Step(name="Rotation", verdict=_progress(ctx, state, blockers)),
        wake=_wake(ctx, state, is_idle=state == present and not waits),
        published={
            "authoritySecret": _secret(ctx),
            "bundleSecret": bundle["metadata"]["name"],
            "certificateMinutes": str(int(seconds(ctx.spec.certificate_lifetime).total_seconds() // 60)),
            **issuer.allowed_kinds(ctx),
        },
    )


def _secret(ctx: Context[Any]) -> str:
    return ctx.name("authority")


def _stored(ctx: Context[PKISpec]) -> Authorities | None:
    return read(ctx.secret("authority", or_deleted=True), ctx.now)


def _new_authority(ctx: Context[PKISpec], *, is_first: bool = False) -> pki.Pair:
    # Each has a name of its own, so that no program confuses them; a long name loses its end.
    name = f"{ctx.namespace}/{ctx.owner}" if is_first else f"{ctx.now:%Y-%m-%dT%H:%MZ} {ctx.namespace}/{ctx.owner}"
    return pki.authority(ctx.draw(), name, ctx.now, seconds(ctx.spec.authority_lifetime))


def _initial(ctx: Context[PKISpec]) -> Authorities:
    """Return the first authority; or, if the key was lost, another one beside those that are trusted so far."""
    bundle = ctx.secret("bundle").get("ca.crt", "")
    predecessors = "".join(sorted(pki.split(bundle) - pki.split(issuer.extra_authorities(ctx))))
    signer = _new_authority(ctx, is_first=not predecessors)
    return Authorities(
        signer=signer,
        predecessors=predecessors,
        generation=ctx.spec.authority_generation,
        phase_began=ctx.now,
    )


def _waits(ctx: Context[PKISpec], state: Authorities) -> Sequence[str]:
    """Return what the present step of a replacement has to wait for."""
    trusted = pki.split(pki.bundle(state.trusted, ctx.now))
    if state.successor:
        return trust_rollout.without_trust(ctx.facts, trusted, ctx.now)
    # No server shows a certificate by an expired authority any more, or no client trusts it.
    still_valid = pki.bundle([state.predecessors], ctx.now)
    return trust_rollout.not_renewed(ctx.facts, trusted, state.predecessors, ctx.now) if still_valid else ()


def _wake(ctx: Context[PKISpec], state: Authorities, *, is_idle: bool) -> datetime:
    """Return the time at which to act next, even if nothing changes until then."""
    until = signing_time(state, seconds(ctx.spec.overlap))
    if state.successor and is_idle and until > ctx.now:
        return until
    return ctx.now + _RECHECK if state.successor or state.predecessors else state.signer.due


def _progress(ctx: Context[PKISpec], state: Authorities, waits: Sequence[str]) -> Verdict:
    """Return the progress of the replacement: always READY, since the PKI works all the while."""
    names = ", ".join([*waits[:_MAX_NAMED], *([f"{len(waits) - _MAX_NAMED} more"] if waits[_MAX_NAMED:] else [])])
    rest = f"; waits for {names}" if waits else ""
    if state.successor:
        until = signing_time(state, seconds(ctx.spec.overlap))
        earliest = f"; not before {until:%Y-%m-%d %H:%M} UTC" if until > ctx.now else ""
        text = "programs trust the new authority before it signs certificates"
        return Verdict(State.READY, f"{text}{rest}{earliest}", "Trusting")
    if state.predecessors:
        text = "the new authority signs certificates; the old one stays trusted until no server uses its certificates"
        return Verdict(State.READY, f"{text}{rest}", "Renewing")
    return Verdict(State.READY, f"the authority is replaced from {state.signer.due:%Y-%m-%d %H:%M} UTC on")


_MAX_NAMED = 12
