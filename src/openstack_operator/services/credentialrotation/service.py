"""CredentialRotation: orders a service to replace credentials, and reports its progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ... import kube
from ...api import Ref
from ...parts.secrets import rotation
from ...parts.secrets.rotation import order_name
from ...plan import Context, Plan, SpecError, State, Step, Verdict, failed, waiting
from .model import C5C3CredentialRotationSpec, CredentialRotationSpec

Spec = CredentialRotationSpec | C5C3CredentialRotationSpec

PENDING = "Pending"
_CREDENTIAL_KINDS = {"serviceAccountPassword": "identity", "adminApplicationCredential": "application"}
_MAX_NAMED = 12
"""Maximum number of names in the list of what it waits for."""
_PHASE_MESSAGES = {
    PENDING: "the service has not started the rotation yet",
    rotation.PREPARING: "the new credential is being created beside the current one",
    rotation.MIGRATING: "the new credential is in use; the previous one is removed when no program uses it",
}


def plan(ctx: Context[Spec]) -> Plan:
    """Return the Secret that orders the service to replace its credential; the service publishes its progress."""
    spec = ctx.spec
    kind = _CREDENTIAL_KINDS.get(spec.target, spec.target)
    service, verdict = _service(ctx)
    name = order_name(service.name, kind)
    report = _report(ctx, service, f"{kind}Rotation") if verdict.ready else None
    if verdict.ready and report is None:
        verdict = failed(_none(spec, service), "InvalidSpec")
    live = kube.secret_data(ctx.children.get(("Secret", name)))
    due = _due(ctx, live, report)
    order = _order(ctx, live, report, due)
    phase = _phase(order.get("at", ""), report)
    is_idle = phase == rotation.IDLE
    kept_until = _kept_until(ctx, order, report)
    # The Secret remembers the order that was followed, so the operator writes it completely or not at all.
    step = Step(
        name="Rotation",
        objects=(kube.secret(ctx, name, order),),
        guarded=True,
        verdict=Verdict(State.READY, _message(phase, report, due if is_idle else None, kept_until), phase),
    )
    return Plan(
        Step(name="Service", verdict=verdict),
        step,
        wake=due if is_idle else kept_until,
        details={
            "lastRotation": (report or {}).get("done"),
            "nextRotation": rotation.stamp(due) if due and is_idle else None,
            "lastTriggeredGeneration": int(order["generation"]) if "generation" in order else None,
        },
    )


def phase(verdicts: Mapping[str, Verdict]) -> str:
    """Return the phase: Idle, Pending, Preparing, Moving; Failed if the operator cannot order anything."""
    progress = verdicts.get("RotationReady")
    service = verdicts.get("ServiceReady", progress)
    if progress is None or not progress.ready or (service and service.state is State.FAILED):
        return "Failed"
    return progress.cause


def _service(ctx: Context[Spec]) -> tuple[Ref, Verdict]:
    """Return the service and a verdict that it exists. Raise SpecError if several services have the same name."""
    refs = ctx.spec.candidates
    existing = [ref for ref in refs if ref in ctx.refs]
    if len(existing) > 1:
        names = " and ".join(f"{ref.kind}/{ref.name}" for ref in existing)
        raise SpecError("spec.keystoneService", f"{names} share this name; set serviceRef")
    if existing:
        return existing[0], Verdict(State.READY)
    label = f"{refs[0].kind}/{refs[0].name}" if len(refs) == 1 else f"a service called {refs[0].name!r}"
    return refs[0], waiting(f"waiting for {label}, which has not reported yet", "Waiting")


def _report(ctx: Context[Spec], service: Ref, name: str) -> dict[str, Any] | None:
    """Return the progress that the service publishes; None if it has no such credential."""
    text = ctx.refs[service].published.get(name)
    return json.loads(text) if text else None


def _none(spec: Spec, service: Ref) -> str:
    if spec.target == "adminApplicationCredential":
        return (
            f"spec.target: {service.kind}/{service.name} has no application credential; set its "
            f"bootstrap.applicationCredential"
        )
    return (
        f"spec.target: {service.kind}/{service.name} has no generated credential for {spec.target!r}: it does"
        " not use one, or takes it from your Secret; choose another target, or change that Secret"
    )


def _is_pending(at: str, report: Mapping[str, Any]) -> bool:
    return bool(at) and (ordered_at := rotation.time(at)) is not None and not _is_accepted(ordered_at, report)


def _is_accepted(ordered_at: datetime, report: Mapping[str, Any]) -> bool:
    """Return True if the service accepted an order, or a later one."""
    accepted_at = rotation.time(report.get("order"))
    return accepted_at is not None and accepted_at >= ordered_at


def _phase(at: str, report: Mapping[str, Any] | None) -> str:
    if report is None:
        return PENDING
    step = report.get("step", rotation.IDLE)
    return PENDING if step == rotation.IDLE and _is_pending(at, report) else step


def _due(ctx: Context[Spec], live: Mapping[str, str], report: Mapping[str, Any] | None) -> datetime | None:
    """Return the time of the next replacement on schedule."""
    interval = ctx.spec.interval
    if interval is None or report is None:
        return None
    since = [rotation.time(live.get("since")) or ctx.now, rotation.time(report.get("done"))]
    return max(at for at in since if at) + interval


def _order(
    ctx: Context[Spec], old: Mapping[str, str], report: Mapping[str, Any] | None, due: datetime | None
) -> dict[str, str]:
    """Return the order for the service: with a new time if a replacement is due, or requested."""
    since, days = kube.past_stamp(old.get("since", ""), ctx.now) or rotation.stamp(ctx.now), ctx.spec.grace_days
    latest = {name: old[name] for name in ("at", "generation") if name in old}
    order = {**latest, "since": since, "graceDays": str(days)}
    if report is None:
        return order
    # Later than every order before: the service takes no other for a new one, also after the clock was put back.
    last = rotation.time(latest.get("at"))
    now = {"at": rotation.stamp(max(ctx.now, last + timedelta(seconds=1)) if last else ctx.now)}
    if ctx.spec.is_ordered and old.get("generation") != str(ctx.generation):
        return {**order, **now, "generation": str(ctx.generation)}
    is_idle = _phase(latest.get("at", ""), report) == rotation.IDLE
    return {**order, **now} if is_idle and due and due <= ctx.now else order


def _kept_until(ctx: Context[Spec], order: Mapping[str, str], report: Mapping[str, Any] | None) -> datetime | None:
    """Return the time until which the service keeps the old account by this order at least; None if that is over, or
    if it follows another order, whose grace period it does not report.
    """
    at = order.get("at", "")
    if report is None or report.get("step") != rotation.MIGRATING or not at or report.get("order") != at:
        return None
    state = rotation.Rotation(since=report.get("since", ""), order=at)
    until = rotation.kept_until(state, rotation.Order(at=at, grace=int(order["graceDays"])))
    return until if until > ctx.now else None


def _message(phase: str, report: Mapping[str, Any] | None, due: datetime | None, kept_until: datetime | None) -> str:
    """Return the progress, what the service waits for (pods, and Secrets that still have the old credential), and the
    earliest end of that credential.
    """
    if report is None:
        return ""
    if phase == rotation.IDLE:
        return f"due from {due:%Y-%m-%d %H:%M} UTC on" if due else "replaced on request"
    waits: list[str] = report.get("waits", [])
    names = ", ".join([*waits[:_MAX_NAMED], *([f"{len(waits) - _MAX_NAMED} more"] if waits[_MAX_NAMED:] else [])])
    rest = f"; waits for {names}" if names else ""
    earliest = f"; not before {kept_until:%Y-%m-%d %H:%M} UTC" if kept_until else ""
    return f"{_PHASE_MESSAGES[phase]}{rest}{earliest}"
