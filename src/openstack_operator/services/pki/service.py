"""PKI: who signs, whose key nobody mounts, and what others need to trust it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from ... import kube, pki
from ...api import seconds
from ...parts.authorities import Authorities, next_state, read, signing_time
from ...plan import Context, Plan, State, Step, Verdict
from . import issuer, users
from .model import PKISpec

_AGAIN = timedelta(seconds=15)
"""Until users are looked at again, while one authority takes the place of another."""


def plan(ctx: Context[PKISpec]) -> Plan:
    """Everything a PKI is made of; published: bundleSecret (key `ca.crt`), certificateMinutes, and either
    authoritySecret (keys `tls.crt`, `tls.key`: who signs now) or issuerName, issuerKind and issuerGroup.
    """
    if ctx.spec.issuer_ref is None:
        return _own(ctx)
    return issuer.plan(ctx, ctx.spec.issuer_ref, _own(ctx) if _held(ctx) else None)


def replaces(ctx: Context[PKISpec]) -> bool:
    """Whether its users have to be looked at: one authority takes the place of another."""
    held = _held(ctx)
    return bool(held and (held.successor or held.predecessors))


def almost(ctx: Context[PKISpec]) -> bool:
    """Whether all there is left to know is what servers show."""
    held = _held(ctx)
    return bool(held and held.predecessors and not held.successor and _waits(ctx, held) == [users.SHOWN])


def _own(ctx: Context[PKISpec]) -> Plan:
    held = _held(ctx) or _made(ctx)
    waits = _waits(ctx, held)
    after = next_state(
        held,
        wanted=ctx.spec.authority_generation,
        now=ctx.now,
        overlap=seconds(ctx.spec.overlap),
        blockers=waits,
        new_authority=lambda: _drawn(ctx),
    )
    # A barrier: nobody is told to trust what was not written down.
    signs = Step(
        name="Authority",
        # With its key, every certificate could be made anew; without, those there are cannot be told from any other.
        objects=(kube.irreplaceable(kube.secret(ctx, _secret(ctx), after.files)),),
        guarded=True,
        barrier=True,
    )
    trusted = pki.bundle([*after.trusted, issuer.given(ctx)], ctx.now)
    bundle = kube.secret(ctx, ctx.name("bundle"), {"ca.crt": trusted})
    # Whom a step waits for is known once it has begun.
    late = () if after != held else waits
    return Plan(
        signs,
        Step(name="Bundle", objects=(bundle,), after=(signs,)),
        Step(name="Rotation", verdict=_told(ctx, after, late)),
        wake=_wake(ctx, after, calm=after == held and not waits),
        published={
            "authoritySecret": _secret(ctx),
            "bundleSecret": bundle["metadata"]["name"],
            "certificateMinutes": str(int(seconds(ctx.spec.certificate_lifetime).total_seconds() // 60)),
        },
    )


def _secret(ctx: Context[Any]) -> str:
    return kube.fitting(ctx.name("authority"))


def _held(ctx: Context[PKISpec]) -> Authorities | None:
    name = _secret(ctx)
    return read(kube.secret_data(ctx.children.get(("Secret", name)) or ctx.lost.get(name)), ctx.now)


def _drawn(ctx: Context[PKISpec], *, first: bool = False) -> pki.Pair:
    # By names of their own, no program takes one for another; a long name loses its end.
    name = f"{ctx.namespace}/{ctx.owner}" if first else f"{ctx.now:%Y-%m-%dT%H:%MZ} {ctx.namespace}/{ctx.owner}"
    return pki.authority(ctx.draw(), name, ctx.now, seconds(ctx.spec.authority_lifetime))


def _made(ctx: Context[PKISpec]) -> Authorities:
    """The first one; or another one where the key was lost, beside those that are trusted so far."""
    known = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("bundle"))))).get("ca.crt", "")
    predecessors = "".join(sorted(pki.each(known) - pki.each(issuer.given(ctx))))
    signer = _drawn(ctx, first=not predecessors)
    return Authorities(
        signer=signer,
        predecessors=predecessors,
        generation=ctx.spec.authority_generation,
        phase_began=ctx.now,
    )


def _waits(ctx: Context[PKISpec], held: Authorities) -> Sequence[str]:
    """For whom the present step of a replacement has to wait."""
    trusted = pki.each(pki.bundle(held.trusted, ctx.now))
    if held.successor:
        return users.untrusting(ctx.facts, trusted, ctx.now)
    # What has ended nobody shows any more, or it is trusted by nobody.
    still_valid = pki.bundle([held.predecessors], ctx.now)
    return users.unrenewed(ctx.facts, trusted, held.predecessors, ctx.now) if still_valid else ()


def _wake(ctx: Context[PKISpec], held: Authorities, *, calm: bool) -> datetime:
    """When something is to be done next, though nothing else changes."""
    until = signing_time(held, seconds(ctx.spec.overlap))
    if held.successor and calm and until > ctx.now:
        return until
    return ctx.now + _AGAIN if held.successor or held.predecessors else held.signer.due


def _told(ctx: Context[PKISpec], held: Authorities, waits: Sequence[str]) -> Verdict:
    """How far the replacement is: it is no fault of the PKI, which works all the while."""
    shown = ", ".join([*waits[:_NAMED], *([f"{len(waits) - _NAMED} more"] if waits[_NAMED:] else [])])
    rest = f"; waits for {shown}" if waits else ""
    if held.successor:
        until = signing_time(held, seconds(ctx.spec.overlap))
        when = f"; not before {until:%Y-%m-%d %H:%M} UTC" if until > ctx.now else ""
        text = "a new authority is trusted beside the one that signs, before certificates are by it"
        return Verdict(State.READY, f"{text}{rest}{when}", "Trusting")
    if held.predecessors:
        text = "certificates are by the new authority; the one before is trusted until nobody shows one by it"
        return Verdict(State.READY, f"{text}{rest}", "Renewing")
    return Verdict(State.READY, f"the authority is replaced from {held.signer.due:%Y-%m-%d %H:%M} UTC on")


_NAMED = 12
