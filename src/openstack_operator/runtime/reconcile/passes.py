"""The end of every pass: a condition, and the time of the next pass, however this one failed."""

from __future__ import annotations

import secrets
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from ...kube import one_line
from ...plan import PAUSED, Outlook, SpecError, State, Transient, Verdict, pause_reason
from .. import metrics
from ..cache.entries import Cached, Meta, Request
from ..cache.world import World
from ..guards.node_claims import NodeClaims
from ..kubernetes.errors import Forbidden, LeadershipLostError, NotAdmitted
from .apply_cache import ApplyCache
from .finalizers import finish_deletions
from .gather import Gatherer
from .planning import Planner, make_plan
from .report import INTERNAL, REFUSED_AGAIN, Report, Reporter

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_LOOK_AGAIN = 1.0
"""Seconds between looks at a deletion that waits for a resource that is gone."""


@dataclass(frozen=True)
class Result:
    """Time of the next pass over a resource, besides the passes that changes cause."""

    after: float | None = None
    """Seconds."""
    retry: bool = False
    """After a pause that grows with each failure."""
    slowly: bool = False

    def within(self, seconds: float | None) -> Result:
        """Return the same, with the next pass after these seconds at the latest; None sets no limit."""
        waits = [wait for wait in (self.after, seconds) if wait is not None]
        return replace(self, after=min(waits, default=None))


@dataclass
class Engine:
    """Parts that all reconcilers share."""

    world: World
    node_claims: NodeClaims
    gatherer: Gatherer
    reporter: Reporter
    apply_cache: ApplyCache = field(default_factory=ApplyCache)
    outlook: Outlook = lambda verdict: verdict
    planner: Planner = make_plan


class Pass(Protocol):
    """A reconciler of one resource."""

    async def reconcile(self, request: Request, resource: Cached) -> Result:
        """Bring the world closer to the resource's spec and report. Raises SpecError and Transient."""
        ...

    async def note_plan(self, request: Request, resource: Cached) -> Result:
        """Learn what a paused resource made, and write nothing. Raises SpecError and Transient."""
        ...


class ErrorBoundary:
    """A runner of passes that turns every failure into a condition and a time to try again."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run(self, reconciler: Pass, request: Request) -> Result:
        """Run a pass of that reconciler over the resource of the request; raise only LeadershipLostError."""
        resource = self._engine.world.get(request)
        if resource is None:
            return await self._clean_up(request)
        started = time.perf_counter()
        try:
            if (reason := _pause_reason(resource.meta)) is not None:
                result = await self._pause(reconciler, request, resource, reason)
            else:
                self._engine.world.check_complete(request)
                result = await reconciler.reconcile(request, resource)
            outcome = "requeue" if result.retry else "requeue_after" if result.after is not None else "success"
        except SpecError as error:
            result, outcome = await self._report(request, error.verdicts), "success"
            result = result.within(REFUSED_AGAIN) if isinstance(error, NotAdmitted) else result
        except Transient as error:
            _log.info("retrying", kind=request.kind, namespace=request.namespace, name=request.name, error=str(error))
            status_result = await self._report(request, {"Ready": Verdict(State.RETRYING, str(error))})
            result, outcome = Result(status_result.after, retry=True, slowly=isinstance(error, Forbidden)), "error"
        except LeadershipLostError:
            # No condition can report it: another replica has the lease, and only that one may write.
            raise
        except Exception as error:
            result, outcome = await self._bug(request, error), "error"
        metrics.RECONCILES.labels(request.kind, outcome).inc()
        if outcome == "error":
            metrics.ERRORS.labels(request.kind).inc()
        metrics.SECONDS.labels(request.kind).observe(time.perf_counter() - started)
        return result

    async def _pause(self, reconciler: Pass, request: Request, resource: Cached, reason: str) -> Result:
        """Report that a resource is paused. It also leaves the line of those that wait to replace pods."""
        kind, name = self._engine.world.resource(request.kind).kind, request.name
        command = f"openstack-operator resume {kind}/{name} -n {request.namespace}"
        text = f"the operator changes nothing for this resource; to resume, run: {command}"
        # Quoted: whoever may write the resource wrote it, and a command follows.
        message = f"reason given: {one_line(reason)!r}; {text}" if reason.strip() else text
        await self._engine.reporter.report_pause(request, resource, Verdict(State.READY, message, PAUSED))
        self._engine.apply_cache.rollouts.forget(resource.meta.uid)
        return await reconciler.note_plan(request, resource)

    async def _clean_up(self, request: Request) -> Result:
        self._engine.gatherer.forget(request)
        self._engine.reporter.forget(request)
        where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
        try:
            after = _LOOK_AGAIN if await finish_deletions(self._engine.world, request) else None
        except Transient as error:
            _log.info("retrying", error=str(error), **where)
            after = _LOOK_AGAIN
        except SpecError as error:
            # No condition can report it: the resource is gone.
            _log.warning("cannot end the deletion of its workloads", error=str(error), **where)
            after = REFUSED_AGAIN
        except LeadershipLostError:
            raise
        except Exception as error:
            await self._bug(request, error)
            after = REFUSED_AGAIN
        self._engine.world.plans.forget(request)
        return Result(after=after)

    async def _bug(self, request: Request, error: Exception) -> Result:
        """Log where an unforeseen exception was raised, and report an id in the condition by which to find it."""
        error_id = secrets.token_hex(4)
        # Not its text: it may quote a password.
        frames = "".join(traceback.format_tb(error.__traceback__))
        fields = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
        _log.error("internal error", id=error_id, error=type(error).__name__, frames=frames, **fields)
        metrics.PANICS.labels(request.kind).inc()
        message = f"a bug of the operator ({type(error).__name__}); its log has the details under ID {error_id}"
        status_result = await self._report(request, {"Ready": Verdict(State.RETRYING, message, INTERNAL)})
        return Result(status_result.after, retry=True)

    async def _report(self, request: Request, verdicts: Mapping[str, Verdict]) -> Result:
        """Report a pass that failed or waits; everything else in the status stays."""
        resource = self._engine.world.get(request)
        # The conditions of a paused resource stay as they are.
        if resource is None or _pause_reason(resource.meta) is not None:
            return Result()
        try:
            report = Report(conditions=verdicts, keep_others=True)
            return Result(after=await self._engine.reporter.report(request, resource, report))
        except Transient as error:
            _log.info("cannot report", kind=request.kind, name=request.name, error=str(error))
            return Result(retry=True)


def _pause_reason(meta: Meta) -> str | None:
    """Return why a resource is paused; None if it is not, or is being deleted, which goes on."""
    return None if meta.deletion_timestamp is not None else pause_reason(meta.annotations)
