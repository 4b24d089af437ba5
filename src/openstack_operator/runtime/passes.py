"""What every pass ends in: a time to come again, and a condition, however it failed."""

from __future__ import annotations

import secrets
import time
import traceback
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from ..plan import SpecError, State, Transient, Verdict
from . import metrics
from .client import Forbidden, LeadershipLostError
from .finalizers import finish_deletions
from .gather import Gatherer
from .memo import Memo
from .report import INTERNAL, Report, Reporter
from .store import Cached, Request
from .world import World

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_LOOK_AGAIN = 1.0
"""Seconds between looks at what waits for a resource that is gone."""


@dataclass(frozen=True)
class Next:
    """When a resource is to be looked at again, besides whenever something changes."""

    after: float | None = None
    """Seconds."""
    retry: bool = False
    """After a pause that grows with each failure."""
    slowly: bool = False


@dataclass
class Parts:
    """What all reconcilers work with."""

    world: World
    gatherer: Gatherer
    reporter: Reporter
    memo: Memo = field(default_factory=Memo)


class Pass(Protocol):
    """Looks at one resource."""

    async def reconcile(self, request: Request, held: Cached) -> Next:
        """Brings the world closer to the resource's spec and reports. Raises SpecError and Transient."""
        ...


class Guard:
    """Runs passes, and turns every way they may fail into a condition and a time to try again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def run(self, reconciler: Pass, request: Request) -> Next:
        """A pass of that reconciler over what the request names; raises nothing."""
        held = self._parts.world.held(request)
        if held is None:
            return await self._gone(request)
        started = time.perf_counter()
        try:
            self._parts.world.check_complete(request)
            then = await reconciler.reconcile(request, held)
            result = "requeue" if then.retry else "requeue_after" if then.after is not None else "success"
        except SpecError as error:
            then, result = await self._tell(request, error.verdict), "success"
        except Transient as error:
            _log.info("retrying", kind=request.kind, namespace=request.namespace, name=request.name, error=str(error))
            told = await self._tell(request, Verdict(State.RETRYING, str(error)))
            then, result = Next(told.after, retry=True, slowly=isinstance(error, Forbidden)), "error"
        except LeadershipLostError:
            # No condition can tell of it: the lease is another's, and so is every write.
            raise
        except Exception as error:
            then, result = await self._bug(request, error), "error"
        metrics.RECONCILES.labels(request.kind, result).inc()
        if result == "error":
            metrics.ERRORS.labels(request.kind).inc()
        metrics.SECONDS.labels(request.kind).observe(time.perf_counter() - started)
        return then

    async def _gone(self, request: Request) -> Next:
        self._parts.gatherer.forget(request)
        self._parts.reporter.forget(request)
        try:
            unsettled = await finish_deletions(self._parts.world, request)
        except Transient as error:
            _log.info("retrying", kind=request.kind, namespace=request.namespace, name=request.name, error=str(error))
            unsettled = True
        self._parts.world.plans.forget(request)
        return Next(after=_LOOK_AGAIN if unsettled else None)

    async def _bug(self, request: Request, error: Exception) -> Next:
        """An exception nobody foresaw: the log gets where it was raised, the condition an id to find that by."""
        mark = secrets.token_hex(4)
        # Not its text: it may quote a password.
        frames = "".join(traceback.format_tb(error.__traceback__))
        where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
        _log.error("internal error", id=mark, error=type(error).__name__, frames=frames, **where)
        metrics.PANICS.labels(request.kind).inc()
        message = f"a fault of the operator ({type(error).__name__}); its log has the details under id {mark}"
        told = await self._tell(request, Verdict(State.RETRYING, message, INTERNAL))
        return Next(told.after, retry=True)

    async def _tell(self, request: Request, ready: Verdict) -> Next:
        """Reports a pass that got nowhere; everything else in the status stays."""
        held = self._parts.world.held(request)
        if held is None:
            return Next()
        try:
            report = Report(conditions={"Ready": ready}, partial=True)
            return Next(after=await self._parts.reporter.report(request, held, report))
        except Transient as error:
            _log.info("cannot report", kind=request.kind, name=request.name, error=str(error))
            return Next(retry=True)
