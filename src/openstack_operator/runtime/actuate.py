"""One pass over a resource whose counterpart lives outside Kubernetes: ensure it, or remove it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import structlog

from ..api import Model, Ref, references
from ..kube import fitting, judge, own
from ..plan import READY, Context, Drifted, Outcome, SpecError, State, Transient, Verdict, failed, waiting
from . import metrics
from .client import Forbidden
from .events import RECREATION
from .finalizers import PATIENCE, add, comes_back, delete, drop, going, release
from .gather import ADMIN_SECRET, parse
from .kinds import NAMESPACE, Kind
from .limits import check_limits
from .ownership import Ownership, Taken
from .passes import Next, Parts
from .registry import Actuator
from .report import Report
from .store import Cached, Request

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

FINALIZER = "openstack.k8s.io/cleanup"
_REMOVE_AGAIN = 5.0
"""Seconds between tries to remove; whoever deletes something waits for it."""
_LOOK_AGAIN = 1.0
"""Seconds between looks at what has to go first."""
_CREATED = " created"
"""How a change ends that made what was not there (actuators/loop.py)."""
_ASK_AGAIN = 15.0
"""Seconds between looks at what is out there and not as it should be."""


class Actuating:
    """Keeps what lives outside Kubernetes as resources of one kind say."""

    def __init__(self, actuator: Actuator, parts: Parts, threads: Executor) -> None:
        self.resource = actuator.resource
        self._actuator = actuator
        self._parts = parts
        self._threads = threads
        kind, claims = Kind.of(self.resource), actuator.claims
        self._ownership = Ownership(parts.world, kind, claims) if claims else None

    async def reconcile(self, request: Request, held: Cached) -> Next:
        """Ensures or removes; the outcome is reported. Raises SpecError and Transient."""
        if held.meta.deletion_timestamp is not None:
            return await self._delete(request, held)
        check_limits(held.raw)
        live = held.decode()
        spec = parse(self.resource, live)
        gathered = await self._parts.gatherer.gather(self.resource, held, spec, admin=True)
        if gathered.missing:
            return await self._report(request, held, Report(conditions={"Ready": gathered.missing}, partial=True))
        was_ready = own(live).ready
        if pending := _pending(held, gathered.context):
            verdict = waiting("waiting for " + ", ".join(pending))
            return await self._unchanged(request, held, verdict, was_ready=was_ready)
        if self._ownership and (taken := self._ownership.taken(held)).problems:
            return await self._refused(request, held, taken, was_ready=was_ready)
        held = await add(self._parts.world, request, held, FINALIZER)
        try:
            outcome = await self._ensure(request, held, gathered.context)
        except Transient as error:
            if isinstance(error, Drifted):
                await self._made_anew(request, self._beside(request, spec))
            if not was_ready:
                raise
            verdict = Verdict(State.RETRYING, str(error))
            then = await self._unchanged(request, held, verdict, was_ready=True)
            return Next(then.after, retry=True)
        report = Report(conditions={"Ready": READY, **outcome.told}, published={}, details=outcome.details)
        then = await self._report(request, held, report)
        # Spread, so that what was made together is not asked for together ever after.
        after = self._actuator.interval.total_seconds() * random.uniform(0.8, 1.2)  # noqa: S311
        waits = (after, then.after, None if report.ready.ready else _ASK_AGAIN)
        return Next(after=min(wait for wait in waits if wait is not None))

    async def _ensure(self, request: Request, held: Cached, context: Context[Any]) -> Outcome:
        """The remote side is as the spec says; what else there is to tell of it comes out."""
        loop = asyncio.get_running_loop()
        changes = await loop.run_in_executor(self._threads, self._actuator.ensure, context)
        for change in changes:
            metrics.CHANGES.labels(request.kind).inc()
            where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
            _log.info("remote changed", change=change, **where)
        await self._tell_recreated(request, held, changes)
        if self._actuator.seen is None:
            return Outcome()
        return await loop.run_in_executor(self._threads, self._actuator.seen, context)

    async def _tell_recreated(self, request: Request, held: Cached, changes: Iterable[str]) -> None:
        """Writes an Event about what was out there for the present spec, and had to be created again."""
        live, reporter = held.decode(), self._parts.reporter
        names = [change.removesuffix(_CREATED) for change in changes if change.endswith(_CREATED)]
        # Another version of the operator may have wanted less.
        if names and own(live).ready and live["status"].get("operatorVersion") == reporter.version:
            note = f"recreated {', '.join(names)}, which the server did not have any more"
            await reporter.recorder.warn(held, self._parts.world.resource(request.kind), RECREATION, note)

    async def _refused(self, request: Request, held: Cached, taken: Taken, *, was_ready: bool) -> Next:
        """Tells of names that belong to other resources; nothing is done out there."""
        if taken.unknown:
            verdict = waiting("waiting for its owner to be looked at, since another resource claims the same name")
            await self._unchanged(request, held, verdict, was_ready=was_ready)
            return Next(after=_LOOK_AGAIN)
        first, *more = taken.problems.items()
        verdict = failed(str(SpecError(*first, *more)), SpecError.reason)
        then = await self._report(request, held, Report(conditions={"Ready": verdict}, partial=True))
        # Nothing tells when the other one is gone.
        return Next(after=min(then.after or _ASK_AGAIN, _ASK_AGAIN))

    async def _unchanged(self, request: Request, held: Cached, verdict: Verdict, *, was_ready: bool) -> Next:
        """Nothing is known to have become worse out there: a resource that was ready stays so."""
        ready = READY if was_ready else verdict
        flow = verdict if was_ready else None
        return await self._report(request, held, Report(conditions={"Ready": ready}, flow=flow, partial=True))

    async def _delete(self, request: Request, held: Cached) -> Next:
        """Removes what is out there and lets the resource go."""
        if FINALIZER not in held.meta.finalizers:
            return Next()
        other = self._of(request, held)
        if other and await self._waits(request, held, *other):
            verdict = Verdict(State.PROGRESSING, f"deleting: waiting for {other[0].handle}/{request.name}", "Deleting")
            await self._report(request, held, Report(conditions={"Ready": verdict}, partial=True))
            return Next(after=_LOOK_AGAIN)
        world = self._parts.world
        returns = await comes_back(world, world.resource(request.kind), held.meta)
        if returns is None and going(held) < PATIENCE:
            verdict = Verdict(State.PROGRESSING, "deleting: waiting for its owner to be looked at", "Deleting")
            await self._report(request, held, Report(conditions={"Ready": verdict}, partial=True))
            return Next(after=1)
        if returns:
            where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
            _log.warning("was deleted, but its owner makes it again: nothing is removed", **where)
        # Where that one stays, it was this resource alone that somebody deleted.
        context = None if other or returns else await self._removable(request, held)
        if context is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, self._actuator.remove, context)
            except Transient as error:
                verdict = Verdict(State.PROGRESSING, f"deleting: {error}", "Deleting")
                await self._report(request, held, Report(conditions={"Ready": verdict}, partial=True))
                return Next(after=_REMOVE_AGAIN)
            except SpecError as error:
                # Holding the resource for ever would not make the remote side accept it.
                _log.warning("left behind", kind=request.kind, name=request.name, error=str(error))
        await drop(self._parts.world, request, held, FINALIZER)
        return Next()

    def _of(self, request: Request, held: Cached) -> tuple[Kind, Cached] | None:
        try:
            return self._beside(request, parse(self.resource, held.decode()))
        except SpecError:
            return None

    def _beside(self, request: Request, spec: Model) -> tuple[Kind, Cached] | None:
        """The object another operator has for the same thing, if there is one."""
        handle = self._actuator.beside(spec) if self._actuator.beside else ""
        for kind, store in self._parts.world.stores.items():
            if kind.handle == handle and (found := store.get(request.namespace, request.name)):
                return kind, found
        return None

    async def _waits(self, request: Request, held: Cached, kind: Kind, other: Cached) -> bool:
        """Whether another operator's object is still to go before what both are for."""
        if other.meta.deletion_timestamp is None:
            # Whoever deletes this one may not have come to the other yet.
            return going(held) < PATIENCE
        await release(self._parts.world, request, kind, other)
        return True

    async def _made_anew(self, request: Request, other: tuple[Kind, Cached] | None) -> None:
        """The object of the other operator goes, and comes back by its owner: a new one is looked at."""
        if other and other[1].meta.deletion_timestamp is None:
            verdict = judge(other[1].decode())
            if verdict.ready or verdict.state is State.FAILED:
                where = {"namespace": request.namespace, "name": request.name}
                _log.info("made anew, since its operator does not look", kind=other[0].handle, **where)
                await delete(self._parts.world, *other, "Background", by=request)
                if owner := other[1].meta.controller:
                    name = f"{other[0].kind}/{other[1].meta.name}"
                    self._parts.memo.recreations.give_up(owner.uid, name)

    async def _removable(self, request: Request, held: Cached) -> Context[Any] | None:
        """The context to remove with; None where the remote side goes away itself or cannot be addressed anymore."""
        try:
            spec = parse(self.resource, held.decode())
        except SpecError:
            return None
        refs = [ref for _, ref in references(spec)]
        if any(self._leaves(request, ref) for ref in refs) or await self._namespace_ends(request):
            return None
        context = (await self._parts.gatherer.gather(self.resource, held, spec, admin=True)).context
        if self._ownership:
            context = replace(context, taken=frozenset(self._ownership.taken(held).problems))
        for referent in context.refs.values():
            admin = referent.published.get(ADMIN_SECRET)
            if not referent.published or (admin and admin not in context.secrets):
                return None
        return context

    def _leaves(self, request: Request, ref: Ref) -> bool:
        """Whether the remote side is gone or about to be, itself or with a resource it belongs to."""
        world = self._parts.world
        held = world.find(ref.kind, request.namespace, ref.name)
        while held is not None and held.meta.deletion_timestamp is None:
            controller = held.meta.controller
            if controller is None or not world.ours(controller.handle):
                return False
            held = world.held(Request(controller.handle, request.namespace, controller.name))
        return True

    async def _namespace_ends(self, request: Request) -> bool:
        try:
            namespace = await self._parts.world.client.get(NAMESPACE, None, request.namespace)
        except Forbidden:
            return False
        return namespace is None or "deletionTimestamp" in namespace["metadata"]

    async def _report(self, request: Request, held: Cached, report: Report) -> Next:
        return Next(after=await self._parts.reporter.report(request, held, report))


def _pending(held: Cached, context: Context[Any]) -> list[str]:
    """Referents that are not ready yet. A resource that is part of its referent cannot wait for it to be complete:
    that it exists says that what it needs of it is there. What stands for a Node is its part by its labels."""
    owner, part_of = held.meta.controller, held.meta.owner_labels[1:] if held.meta.node else ()
    return [
        f"{ref.kind}/{ref.name}"
        for ref, referent in context.refs.items()
        if not referent.verdict.ready
        and not (owner and (owner.kind, owner.name) == (ref.kind, ref.name))
        and part_of != (ref.kind.lower(), fitting(ref.name))
    ]
