"""The outcome of a pass as the status of its resource: written once, and only when it changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from ... import __version__
from ...api.refs import OPTIONAL_KINDS
from ...kube import conditions, drop_none, plain
from ...plan import COMPLETE, PAUSED, PROGRESSING, Object, SpecError, State, Transient, Verdict, failed
from ...plan.times import past_stamp
from ..cache.entries import Cached, Request, entry
from ..cache.world import World
from ..clock import boottime, now
from ..kubernetes.errors import Missing, NotAdmitted
from ..rollout.running_release import running_release
from ..rollout.still_serving import still_serves_without_plan
from .events import Recorder
from .grace_period import GracePeriod

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_STAMP = re.compile(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""Times as `stamp` writes them."""
_MESSAGE = 2048
_MEMBER = {"role": 63, "state": 63, "message": 1024}
"""Limits of the schema, in characters."""

INTERNAL = "InternalError"
_TEMPORARY = frozenset({"Reconciling", "Stalled", PAUSED})
"""Conditions that say how it is now, and do not stay when a pass does not report them."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds that the operator waits for further changes before it writes a temporary status."""

    initial: float = 3.0
    """For a resource that has no status yet: most of a roll-out is over before a reader could follow."""
    later: float = 1.0
    retrying: float = 5.0
    """For an error that the next try will probably solve."""
    missing: float = 30.0
    """For an object that a spec names and that does not exist."""
    upgrade: float = 60.0
    """For children whose status is by another version of the operator: this version soon writes it again."""


PATIENCE = Patience()
REFUSED_AGAIN = 60.0
"""Seconds after which to write again what admission refused: it may change its answer without an event."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome of a pass."""

    conditions: Mapping[str, Verdict]
    """By type; `Ready` is always one."""
    published: Mapping[str, str] | None = None
    """None keeps the published contract, since the pass did not compute it."""
    endpoint: str | None = None
    phase: str | None = None
    members: Sequence[Mapping[str, str]] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields only this kind's status has."""
    keep_others: bool = False
    """True if other conditions stay unchanged, since no plan was carried out."""
    progress: Verdict | None = None
    """Verdict for Reconciling or Stalled, if not Ready's: an unreachable remote side does not change Ready."""
    release: str = ""
    """OpenStack's, as planned, if the status of the kind shows the running release."""
    outdated: bool = False
    """True if another version of the operator last reconciled one of its children."""
    is_service: bool = False
    """True for a service, whose Ready is always worth an Event: a cloud has dozens of accounts."""

    progress_count: str = ""
    """Number of its parts that are done, as `2 of 7`."""
    has_progress: bool = False
    """True to report the condition Progressing, too, which resources with a plan have."""

    @property
    def ready(self) -> Verdict:
        return self.conditions["Ready"]


@dataclass
class Reporter:
    """A writer of statuses."""

    world: World
    recorder: Recorder
    wake: Callable[[Request], None] = lambda request: None
    """Callback that queues a resource for another pass."""
    patience: Patience = PATIENCE
    version: str = __version__
    """Version of this operator, as in `status.operatorVersion`."""
    clock: Callable[[], float] = boottime
    _pending: dict[Request, float] = field(default_factory=dict[Request, float])
    """Time since which a status differs from the written one."""

    def __post_init__(self) -> None:
        self.grace_period = GracePeriod(self.patience.missing, self.clock)

    async def report(self, request: Request, resource: Cached, report: Report) -> float | None:
        """Write the status, or return the seconds until the next pass because it may still change.

        Raises Transient when it could not be written.
        """
        live = resource.decode()
        old: Object = live.get("status") or {}
        report, grace = self._with_grace(request, resource, report)
        report = self._with_service(request, resource, report)
        # Users plan without an optional resource until it publishes. An operator that restarts must find its contract
        # in the status, or it would remove that part of their configuration.
        durably = self._is_news(resource, report) and self.world.target(request)[0] in OPTIONAL_KINDS
        if not durably:
            self._publish(request, resource, report)
        new = status(report, old, resource.meta.generation, self.version)
        if is_same_status(new, old):
            self._publish(request, resource, report)
            self._pending.pop(request, None)
            return grace
        if not durably and (wait := self._settling(request, report, old, new)) > 0:
            return wait if grace is None else min(wait, grace)
        try:
            is_written = await self._write(request, resource, new)
        except SpecError as error:
            # An object that was stored under an older schema may be refused as a whole.
            _log.warning("cannot write status", kind=request.kind, name=request.name, error=str(error))
            self._publish(request, resource, report)
            waits = [grace, REFUSED_AGAIN if isinstance(error, NotAdmitted) else None]
            return min((wait for wait in waits if wait is not None), default=None)
        if is_written:
            self._publish(request, resource, report)
            kind = self.world.resource(request.kind)
            await self.recorder.tell(resource, kind, old, new, is_service=report.is_service)
        return grace

    async def report_pause(self, request: Request, resource: Cached, verdict: Verdict) -> None:
        """Write the condition of a resource that is paused. The rest of its status stays: it says what the last pass
        found, and for which generation. Raises Transient when it could not be written.
        """
        self.forget(request)
        old: Object = resource.decode().get("status") or {}
        new = paused_status(verdict, old, resource.meta.generation)
        if not is_same_status(new, old):
            try:
                await self._write(request, resource, new)
            except NotAdmitted as error:
                raise Transient(str(error)) from None
            except SpecError as error:
                _log.warning("cannot write status", kind=request.kind, name=request.name, error=str(error))

    async def _write(self, request: Request, resource: Cached, new: Object) -> bool:
        """Write a status, and return False if the resource is gone. Raises SpecError and Transient: a Conflict shows a
        new resource of this name, which the watch will report, or that others write to this one all the time.
        """
        kind = self.world.resource(request.kind)
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            # With its uid, so that a new resource of the same name does not get this status.
            "metadata": {"name": resource.meta.name, "namespace": resource.meta.namespace, "uid": resource.meta.uid},
            "status": new,
        }
        try:
            written = await self.world.client.apply_status(kind, body)
        except Missing:
            self.forget(request)
            return False
        self._pending.pop(request, None)
        self.world.stores[kind].put(entry(written, kind), by=request)
        return True

    def _is_news(self, resource: Cached, report: Report) -> bool:
        return report.published is not None and self.world.published(resource) != report.published

    def _publish(self, request: Request, resource: Cached, report: Report) -> None:
        """Wake users of the resource, so that they plan with what it publishes now."""
        if report.published is not None and self.world.publish(resource, report.published):
            for user in self.world.references.users_of(self.world.target(request)):
                self.wake(user)

    def forget(self, request: Request) -> None:
        """Forget a resource that is gone."""
        self._pending.pop(request, None)
        self.grace_period.forget(request)

    def _with_grace(self, request: Request, resource: Cached, report: Report) -> tuple[Report, float | None]:
        """Return the report, in which missing objects are waited for at first, and the seconds left of that grace."""
        names = [name for name, verdict in report.conditions.items() if verdict.incomplete]
        if not report.keep_others and not names:
            self.grace_period.complete(request)
            return report, None
        verdicts, remaining = dict(report.conditions), None
        for name in names or ["Ready"]:
            verdicts[name], remaining = self.grace_period.judge(request, resource, verdicts[name])
        return replace(report, conditions=verdicts), remaining

    def _with_service(self, request: Request, resource: Cached, report: Report) -> Report:
        """Return the report of a pass that carried out no plan, which also says whether all that the resource made
        serves: what refuses a spec stops no pod.
        """
        ready, planned = report.ready, self.world.resource(request.kind) in self.world.plans.kinds
        report = replace(report, has_progress=planned)
        if not planned or not report.keep_others or ready.state not in (State.FAILED, State.WAITING):
            return report
        children = [*self.world.children(request)]
        has_release = "release" in (resource.decode().get("spec") or {})
        is_installed = not has_release or bool(running_release(resource, children))
        serves = still_serves_without_plan(children, resource.meta.uid, is_installed=is_installed)
        return replace(report, conditions={**report.conditions, "Ready": replace(ready, serves=serves)})

    def _settling(self, request: Request, report: Report, old: Object, new: Object) -> float:
        """Return the seconds until this status should be written: users act on Ready and on failures, so these are
        written at once; but steps that follow each other quickly are not worth a write each.
        """
        progress = report.progress or report.ready
        if progress.ready:
            return 0.0
        if progress.state is State.FAILED:
            return 0.0
        is_temporary = progress.state is State.RETRYING and progress.reason != INTERNAL
        usual = self.patience.later if old.get("conditions") else self.patience.initial
        settle = self.patience.upgrade if report.outdated else self.patience.retrying if is_temporary else usual
        now = self.clock()
        return self._pending.setdefault(request, now) + settle - now


def status(report: Report, old: Object, generation: int, version: str = __version__) -> Object:
    """Return the status after a report of an operator of that version, with the times at which each condition last
    changed its status.
    """
    before = conditions({"status": old})
    verdicts: dict[str, Verdict] = dict(report.conditions)
    progress = report.progress or report.ready
    if not progress.ready:
        type_ = "Stalled" if progress.state is State.FAILED else "Reconciling"
        verdicts[type_] = Verdict(State.READY, progress.message, progress.cause)
    if report.has_progress:
        verdicts[PROGRESSING] = _progress(report)
        if PROGRESSING not in before and before.get("Ready", {}).get("status") == "True":
            # An operator of an earlier version wrote that all was done.
            before[PROGRESSING] = {**before["Ready"], "status": "False"}
    after = {name: _condition(name, verdict, before.get(name), generation) for name, verdict in verdicts.items()}
    if report.keep_others:
        previous = {name: old for name, old in before.items() if name not in _TEMPORARY}
        after = previous | after
    new: Object = {
        "observedGeneration": generation,
        "operatorVersion": version,
        "conditions": list(after.values()),
    }
    if report.published is None:
        fields = {name: value for name, value in old.items() if name not in new}
    else:
        fields = {
            **report.details,
            "release": report.release if report.ready.ready else old.get("release"),
            "published": dict(report.published),
            "endpoint": report.endpoint,
            "phase": report.phase,
            "members": [_member(member) for member in report.members],
        }
    # Zero is a value too, and stays. None is no value at any depth: the API server refuses the whole status for one.
    return new | {name: drop_none(value) for name, value in fields.items() if value or isinstance(value, int)}


def _progress(report: Report) -> Verdict:
    """Return the verdict that Progressing is written from, which is True while a change is under way. It is False with
    the cause where that does not end by itself, as of a Deployment.
    """
    ready = report.ready
    if ready.ready:
        return failed("", COMPLETE)
    message = f"{report.progress_count} parts done; {ready.message}" if report.progress_count else ready.message
    state = State.FAILED if ready.state is State.FAILED else State.READY
    return Verdict(state, message, ready.cause)


def paused_status(verdict: Verdict, old: Object, generation: int) -> Object:
    """Return the status of a resource from the time at which it is paused."""
    by_type = conditions({"status": old})
    paused = _condition(PAUSED, verdict, by_type.get(PAUSED), generation)
    # Without a generation, kstatus would take one that was never looked at for finished.
    return {"observedGeneration": 0, **old, "conditions": [*({**by_type, PAUSED: paused}).values()]}


def is_same_status(new: Object, old: Object) -> bool:
    """Return True if two statuses are equal but for the order of conditions and members."""
    lists = {"conditions": 0, "members": 0}
    return (
        conditions({"status": new}) == conditions({"status": old})
        and _members(new) == _members(old)
        and {**new, **lists} == {**old, **lists}
    )


def _member(member: Mapping[str, str]) -> Object:
    """Return the member, with its texts plain and cut to the limits of the schema."""
    return {name: plain(value)[: _MEMBER.get(name)] for name, value in member.items()}


def _members(live_status: Object) -> dict[str, Object]:
    return {member["name"]: member for member in live_status.get("members") or ()}


def _condition(name: str, verdict: Verdict, before: Mapping[str, Any] | None, generation: int) -> Object:
    unknown = verdict.state is State.RETRYING or verdict.reason == INTERNAL
    is_true = verdict.ready or (name == "Ready" and verdict.serves)
    value = "Unknown" if unknown and not verdict.ready else "True" if is_true else "False"
    earlier = before["lastTransitionTime"] if before is not None and before["status"] == value else ""
    return {
        "type": name,
        "status": value,
        "reason": verdict.cause,
        "message": plain(verdict.message)[:_MESSAGE],
        "observedGeneration": generation,
        # Whoever may write a status may have written any time into it; and the clock may have been put back.
        "lastTransitionTime": past_stamp(earlier, now()) if _STAMP.fullmatch(earlier) else stamp(),
    }


def stamp() -> str:
    """Return the current time as metav1.Time."""
    return now().strftime("%Y-%m-%dT%H:%M:%SZ")
