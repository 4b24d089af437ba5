"""What a pass found, as the status of its resource: written once, and only when it changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import structlog

from .. import __version__
from ..api.refs import OPTIONAL_KINDS
from ..kube import conditions
from ..plan import Object, SpecError, State, Verdict
from .client import Conflict, Missing
from .events import Recorder
from .grace import Grace
from .store import Cached, Request
from .world import World, entry

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_MESSAGE = 2048
_MEMBER = {"role": 63, "state": 63, "message": 1024}
"""Limits of the schema, in characters."""

INTERNAL = "InternalError"


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Seconds a status that is only on its way may change before it is written."""

    first: float = 3.0
    """Of a resource that has none yet: most of a roll-out is over before a reader could follow."""
    later: float = 1.0
    retrying: float = 5.0
    """What the next try will probably mend."""
    missing: float = 30.0
    """For what a spec names and is not there."""
    upgrade: float = 60.0
    """For what another version of the operator has said of what a resource is made of: it is soon said anew."""


PATIENCE = Patience()


@dataclass(frozen=True, kw_only=True)
class Report:
    """The outcome of a pass."""

    conditions: Mapping[str, Verdict]
    """By type; `Ready` is among them."""
    published: Mapping[str, str] | None = None
    """None keeps what was published, since nothing was found out about it."""
    endpoint: str | None = None
    phase: str | None = None
    members: Sequence[Mapping[str, str]] = ()
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields only this kind's status has."""
    partial: bool = False
    """Whether other conditions stay as they are, since no plan was carried out."""
    flow: Verdict | None = None
    """How things go on, where that is not what Ready says: a remote side that is out of reach keeps Ready as it was."""
    release: str = ""
    """OpenStack's, as it is planned for, where the kind tells which one runs."""
    outdated: bool = False
    """Whether something it is made of was last looked at by another version of the operator."""
    is_service: bool = False
    """Whether it is news that the resource became ready: there are dozens of accounts."""

    @property
    def ready(self) -> Verdict:
        return self.conditions["Ready"]


@dataclass
class Reporter:
    """Writes statuses."""

    world: World
    recorder: Recorder
    wake: Callable[[Request], None] = lambda request: None
    """Has a resource looked at again."""
    patience: Patience = PATIENCE
    version: str = __version__
    """Of this operator, as statuses say it."""
    clock: Callable[[], float] = time.monotonic
    _pending: dict[Request, float] = field(default_factory=dict[Request, float])
    """Since when a status differs from what is written."""

    def __post_init__(self) -> None:
        self.grace = Grace(self.patience.missing, self.clock)

    async def report(self, request: Request, held: Cached, report: Report) -> float | None:
        """Writes the status, or returns the seconds after which to come again because it may still change.

        Raises Transient when it could not be written.
        """
        live = held.decode()
        old: Object = live.get("status") or {}
        report, grace = self._with_grace(request, held, report)
        # Users plan without what is optional until it publishes. An operator that starts anew has to find it in the
        # status, or it would take back what they were configured with.
        durably = self._is_news(held, report) and self.world.target(request)[0] in OPTIONAL_KINDS
        if not durably:
            self._publish(request, held, report)
        new = status(report, old, held.meta.generation, self.version)
        if same(new, old):
            self._publish(request, held, report)
            self._pending.pop(request, None)
            return grace
        if not durably and (wait := self._settling(request, report, old, new)) > 0:
            return wait if grace is None else min(wait, grace)
        kind = self.world.resource(request.kind)
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            # With its uid, so that a namesake made meanwhile does not get this status.
            "metadata": {"name": held.meta.name, "namespace": held.meta.namespace, "uid": held.meta.uid},
            "status": new,
        }
        try:
            written = await self.world.client.apply_status(kind, body)
        except (Missing, Conflict):
            self.forget(request)
            return grace
        except SpecError as error:
            # An object that was stored under an older schema may be refused as a whole.
            _log.warning("cannot write status", kind=request.kind, name=request.name, error=str(error))
            self._publish(request, held, report)
            return grace
        self._pending.pop(request, None)
        self.world.stores[kind].put(entry(written, kind), by=request)
        self._publish(request, held, report)
        await self.recorder.tell(held, kind, old, new, is_service=report.is_service)
        return grace

    def _is_news(self, held: Cached, report: Report) -> bool:
        return report.published is not None and self.world.published(held) != report.published

    def _publish(self, request: Request, held: Cached, report: Report) -> None:
        """Has users of the resource plan with what it publishes now."""
        if report.published is not None and self.world.publish(held, report.published):
            for user in self.world.users.of(self.world.target(request)):
                self.wake(user)

    def forget(self, request: Request) -> None:
        """The resource is gone."""
        self._pending.pop(request, None)
        self.grace.forget(request)

    def _with_grace(self, request: Request, held: Cached, report: Report) -> tuple[Report, float | None]:
        """The report, in which what is missing is waited for at first, and the seconds that are left of that."""
        names = [name for name, verdict in report.conditions.items() if verdict.incomplete]
        if not report.partial and not names:
            self.grace.complete(request)
            return report, None
        found, left = dict(report.conditions), None
        for name in names or ["Ready"]:
            found[name], left = self.grace.judge(request, held, found[name])
        return replace(report, conditions=found), left

    def _settling(self, request: Request, report: Report, old: Object, new: Object) -> float:
        """Seconds this status should still be held back: others act on Ready, so that is written at once, and whom a
        failure concerns should not wait; but steps that follow each other quickly are not worth a write each."""
        flow = report.flow or report.ready
        if flow.ready:
            return 0.0
        if flow.state is State.FAILED:
            return 0.0
        mends = flow.state is State.RETRYING and flow.reason != INTERNAL
        first = self.patience.later if old.get("conditions") else self.patience.first
        settle = self.patience.upgrade if report.outdated else self.patience.retrying if mends else first
        now = self.clock()
        return self._pending.setdefault(request, now) + settle - now


def status(report: Report, old: Object, generation: int, version: str = __version__) -> Object:
    """The status after a report of an operator of that version, with the times at which each condition last changed its
    status.
    """
    before = conditions({"status": old})
    found: dict[str, Verdict] = dict(report.conditions)
    flow = report.flow or report.ready
    if not flow.ready:
        kind = "Stalled" if flow.state is State.FAILED else "Reconciling"
        found[kind] = Verdict(State.READY, flow.message, flow.cause)
    written = {name: _condition(name, verdict, before.get(name), generation) for name, verdict in found.items()}
    if report.partial:
        kept = {name: old for name, old in before.items() if name not in ("Reconciling", "Stalled")}
        written = kept | written
    new: Object = {
        "observedGeneration": generation,
        "operatorVersion": version,
        "conditions": list(written.values()),
    }
    if report.published is None:
        carried = {name: value for name, value in old.items() if name not in new}
    else:
        carried = {
            **report.details,
            "release": report.release if report.ready.ready else old.get("release"),
            "published": dict(report.published),
            "endpoint": report.endpoint,
            "phase": report.phase,
            "members": [_member(member) for member in report.members],
        }
    # None of something is said as well.
    return new | {name: value for name, value in carried.items() if value or isinstance(value, int)}


def same(new: Object, old: Object) -> bool:
    """Whether two statuses say the same, in whatever order."""
    lists = {"conditions": 0, "members": 0}
    return (
        conditions({"status": new}) == conditions({"status": old})
        and _members(new) == _members(old)
        and {**new, **lists} == {**old, **lists}
    )


def _member(member: Mapping[str, str]) -> Object:
    """The member as the schema takes it."""
    return {name: value[: _MEMBER.get(name)] for name, value in member.items()}


def _members(found: Object) -> dict[str, Object]:
    return {member["name"]: member for member in found.get("members") or ()}


def _condition(name: str, verdict: Verdict, before: Mapping[str, Any] | None, generation: int) -> Object:
    unknown = verdict.state is State.RETRYING or verdict.reason == INTERNAL
    value = "True" if verdict.ready else "Unknown" if unknown else "False"
    unchanged = before is not None and before["status"] == value
    return {
        "type": name,
        "status": value,
        "reason": verdict.cause,
        "message": verdict.message[:_MESSAGE],
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if unchanged and before else stamp(),
    }


def stamp() -> str:
    """Now, as metav1.Time."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
