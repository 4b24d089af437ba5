"""CredentialRotation: orders a service to replace credentials, and tells how far that is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ... import kube, parts
from ...api import Ref
from ...parts import rotation
from ...plan import Context, Plan, SpecError, State, Step, Verdict, failed, waiting
from .model import CredentialRotationSpec

PENDING = "Pending"
_SORTS = {"serviceAccountPassword": "identity", "adminApplicationCredential": "application"}
_NAMED = 12
"""How many of those it waits for are named."""
_SAID = {
    PENDING: "the service was told, and has not begun",
    rotation.PREPARING: "another one is being made beside the one in use",
    rotation.MOVING: "another one is in use; the one before is removed when nobody uses it",
}


def plan(ctx: Context[CredentialRotationSpec]) -> Plan:
    """A Secret that tells the service since when it is to have another credential; how far it is, it publishes."""
    spec = ctx.spec
    sort = _SORTS.get(spec.target, spec.target)
    service, found = _service(ctx)
    name = parts.order_name(service.name, sort)
    told = _told(ctx, service, f"{sort}Rotation") if found.ready else None
    if found.ready and told is None:
        found = failed(_none(spec, service), "InvalidSpec")
    held = kube.secret_data(ctx.children.get(("Secret", name)))
    due = _due(ctx, held, told)
    ordered = _ordered(ctx, held, told, due)
    phase = _phase(ordered.get("at", ""), told)
    idle = phase == rotation.IDLE
    # It is remembered when reMint was followed, so this is written whole or not at all.
    order = Step(
        name="Rotation",
        objects=(kube.secret(ctx, name, ordered),),
        guarded=True,
        verdict=Verdict(State.READY, _message(phase, told, due if idle else None), phase),
    )
    return Plan(
        Step(name="Service", verdict=found),
        order,
        wake=due if idle else None,
        details={
            "lastRotation": (told or {}).get("done"),
            "nextRotation": rotation.stamp(due) if due and idle else None,
            "lastTriggeredGeneration": int(ordered["generation"]) if "generation" in ordered else None,
        },
    )


def phase(verdicts: Mapping[str, Verdict]) -> str:
    """How far it is: Idle, Pending, Preparing, Moving; Failed where nothing can be ordered."""
    found = verdicts.get("RotationReady")
    known = verdicts.get("ServiceReady", found)
    if found is None or not found.ready or (known and known.state is State.FAILED):
        return "Failed"
    return found.cause


def _service(ctx: Context[CredentialRotationSpec]) -> tuple[Ref, Verdict]:
    """Whom it is about, and whether that is there. Raises SpecError where several are called the same."""
    named = ctx.spec.named
    there = [ref for ref in named if ref in ctx.refs]
    if len(there) > 1:
        found = " and ".join(f"{ref.kind}/{ref.name}" for ref in there)
        raise SpecError("spec.keystoneService", f"{found} are called so; say in serviceRef which one is meant")
    if there:
        return there[0], Verdict(State.READY)
    wanted = f"{named[0].kind}/{named[0].name}" if len(named) == 1 else f"a service called {named[0].name!r}"
    return named[0], waiting(f"waiting for {wanted}, which has not reported yet", "Waiting")


def _told(ctx: Context[CredentialRotationSpec], service: Ref, name: str) -> dict[str, Any] | None:
    """What the service says of it; None where it has none."""
    text = ctx.refs[service].published.get(name)
    return json.loads(text) if text else None


def _none(spec: CredentialRotationSpec, service: Ref) -> str:
    if spec.target == "adminApplicationCredential":
        return f"spec.target: {service.kind}/{service.name} has none; set bootstrap.applicationCredential there"
    return (
        f"spec.target: {service.kind}/{service.name} has nothing of its own to replace for {spec.target!r}: it does not"
        " use that, or your own Secret says how it logs in; choose another target, or change that Secret"
    )


def _pending(at: str, told: Mapping[str, Any]) -> bool:
    return bool(at) and (asked := rotation.time(at)) is not None and not _done(asked, told)


def _done(asked: datetime, told: Mapping[str, Any]) -> bool:
    """Whether an order was taken up, or a later one."""
    taken = rotation.time(told.get("order"))
    return taken is not None and taken >= asked


def _phase(at: str, told: Mapping[str, Any] | None) -> str:
    if told is None:
        return PENDING
    step = told.get("step", rotation.IDLE)
    return PENDING if step == rotation.IDLE and _pending(at, told) else step


def _due(
    ctx: Context[CredentialRotationSpec], held: Mapping[str, str], told: Mapping[str, Any] | None
) -> datetime | None:
    """When it is to be replaced by schedule."""
    spec = ctx.spec
    if spec.interval_days is None or told is None:
        return None
    since = [rotation.time(held.get("since")) or ctx.now, rotation.time(told.get("done"))]
    return max(at for at in since if at) + timedelta(days=spec.interval_days - (spec.pre_rotation_days or 0))


def _ordered(
    ctx: Context[CredentialRotationSpec], held: Mapping[str, str], told: Mapping[str, Any] | None, due: datetime | None
) -> dict[str, str]:
    """What the service is told: another moment where it is time, or where it was asked for."""
    since, days = held.get("since") or rotation.stamp(ctx.now), ctx.spec.grace_period_days or 0
    kept = {name: held[name] for name in ("at", "generation") if name in held}
    wanted = {**kept, "since": since, "graceDays": str(days)}
    if told is None:
        return wanted
    now = {"at": rotation.stamp(ctx.now)}
    if ctx.spec.re_mint and held.get("generation") != str(ctx.generation):
        return {**wanted, **now, "generation": str(ctx.generation)}
    idle = _phase(kept.get("at", ""), told) == rotation.IDLE
    return {**wanted, **now} if idle and due and due <= ctx.now else wanted


def _message(phase: str, told: Mapping[str, Any] | None, due: datetime | None) -> str:
    """How far it is, and who is waited for: pods, and Secrets that still hold the one before."""
    if told is None:
        return ""
    if phase == rotation.IDLE:
        return f"due from {due:%Y-%m-%d %H:%M} UTC on" if due else "replaced when asked for"
    waits: list[str] = told.get("waits", [])
    shown = ", ".join([*waits[:_NAMED], *([f"{len(waits) - _NAMED} more"] if waits[_NAMED:] else [])])
    return f"{_SAID[phase]}; waits for {shown}" if shown else _SAID[phase]
