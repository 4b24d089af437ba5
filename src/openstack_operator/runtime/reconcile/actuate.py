"""One pass over a resource whose counterpart lives outside Kubernetes: ensure it, or remove it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, TypeVar

import structlog

from ...api import Model, Ref, references
from ...kube import child_verdict, fitting, judge
from ...plan import READY, Actuator, Context, Drifted, Outcome, SpecError, State, Transient, Verdict, failed, waiting
from ...plan.fence import fenced
from .. import metrics
from ..cache.entries import Cached, Request
from ..guards.name_claims import Conflicts, Ownership
from ..kubernetes.errors import Forbidden
from ..kubernetes.kinds import NAMESPACE, Kind
from ..kubernetes.limits import check_limits
from .events import RECREATION
from .finalizers import PATIENCE, add, comes_back, delay, delete, drop, remove_stuck_finalizer
from .gather import parse
from .inputs import ADMIN_SECRET
from .passes import Engine, Result
from .report import Report

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

T = TypeVar("T")

FINALIZER = "openstack.k8s.io/cleanup"
_REMOVE_AGAIN = 5.0
"""Seconds between tries to remove; the user who deletes something waits for it."""
_LOOK_AGAIN = 1.0
"""Seconds between looks at an object that has to go first."""
_CREATED = " created"
"""End of a change that created something (actuators/loop.py)."""
_ASK_AGAIN = 15.0
"""Seconds between looks at a remote side that is not as it should be."""


class ActuatorReconciler:
    """A reconciler of things outside Kubernetes with the resources of one kind."""

    def __init__(self, actuator: Actuator, engine: Engine, threads: Executor) -> None:
        self._type = actuator.resource
        self._actuator = actuator
        self._engine = engine
        self._threads = threads
        kind, claims = Kind.of(self._type), actuator.claims
        rivals = {Kind.of(resource): of for resource, of in actuator.rivals.items()}
        self._ownership = Ownership(engine.world, kind, {kind: claims, **rivals}) if claims else None

    async def reconcile(self, request: Request, resource: Cached) -> Result:
        """Ensure or remove the remote side, and report the outcome. Raises SpecError and Transient."""
        if resource.meta.deletion_timestamp is not None:
            return await self._delete(request, resource)
        check_limits(resource.raw)
        live = resource.decode()
        spec = parse(self._type, live)
        inputs = await self._engine.gatherer.gather(self._type, resource, spec, admin=True)
        if inputs.missing:
            report = Report(conditions={"Ready": inputs.missing}, keep_others=True)
            return (await self._report(request, resource, report)).within(inputs.recheck_after)
        was_ready = child_verdict(live).ready
        if pending := _unready_refs(resource, inputs.context):
            verdict = waiting("waiting for " + ", ".join(pending))
            return await self._keep_ready(request, resource, verdict, was_ready=was_ready)
        if self._ownership and (conflicts := self._ownership.conflicts(resource)).problems:
            return await self._refuse(request, resource, conflicts, was_ready=was_ready)
        resource = await add(self._engine.world, request, resource, FINALIZER)
        try:
            outcome = await self._ensure(request, resource, inputs.context)
        except Transient as error:
            if isinstance(error, Drifted):
                await self._recreate(request, self._find_twin(request, spec))
            if not was_ready:
                raise
            verdict = Verdict(State.RETRYING, str(error))
            result = await self._keep_ready(request, resource, verdict, was_ready=True)
            return Result(result.after, retry=True)
        report = Report(conditions={"Ready": READY, **outcome.extra_conditions}, published={}, details=outcome.details)
        result = await self._report(request, resource, report)
        # Spread, so that resources that were made together are not looked at together ever after.
        after = self._actuator.interval.total_seconds() * random.uniform(0.8, 1.2)  # noqa: S311
        waits = (after, result.after, None if report.ready.ready else _ASK_AGAIN)
        return Result(after=min(wait for wait in waits if wait is not None))

    async def note_plan(self, request: Request, resource: Cached) -> Result:
        """Do nothing: a resource with an actuator makes no objects."""
        return Result()

    async def _ensure(self, request: Request, resource: Cached, context: Context[Any]) -> Outcome:
        """Make the remote side as the spec says, and return what else the actuator observed of it."""
        changes = await self._change(self._actuator.ensure, context)
        for change in changes:
            metrics.CHANGES.labels(request.kind).inc()
            where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
            _log.info("remote changed", change=change, **where)
        await self._warn_of_recreation(request, resource, changes)
        if self._actuator.observe is None:
            return Outcome()
        return await self._in_thread(self._actuator.observe, context)

    async def _change(self, change: Callable[[Context[Any]], T], context: Context[Any]) -> T:
        """Return the outcome of a change of the remote side. A thread cannot be canceled: the lease is not released
        before it ends, which it does at the next request that it would send.
        """
        changing = self._in_thread(self._fenced(change), context)
        return await self._engine.world.client.sent_writes.finish(changing)

    async def _in_thread(self, work: Callable[[Context[Any]], T], context: Context[Any]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, context)

    def _fenced(self, change: Callable[[Context[Any]], T]) -> Callable[[Context[Any]], T]:
        """Return a change of the remote side that begins, and goes on, only while this process may act: it may have
        been frozen since it planned the change, and another replica has changed the remote side meanwhile.
        """

        def change_as_leader(context: Context[Any]) -> T:
            check = self._engine.world.client.fence
            check()
            with fenced(check):
                return change(context)

        return change_as_leader

    async def _warn_of_recreation(self, request: Request, resource: Cached, changes: Iterable[str]) -> None:
        """Write an Event about what existed on the remote side for the present spec, and had to be created again."""
        live, reporter = resource.decode(), self._engine.reporter
        names = [change.removesuffix(_CREATED) for change in changes if change.endswith(_CREATED)]
        # Another version of the operator may have wanted less.
        if names and child_verdict(live).ready and live["status"].get("operatorVersion") == reporter.version:
            note = f"recreated {', '.join(names)}, which were missing on the server"
            await reporter.recorder.warn(resource, self._engine.world.resource(request.kind), RECREATION, note)

    async def _refuse(self, request: Request, resource: Cached, conflicts: Conflicts, *, was_ready: bool) -> Result:
        """Report names that belong to other resources; the remote side stays as it is."""
        if conflicts.unknown:
            verdict = waiting("waiting for the first pass over its owner, since another resource claims the same name")
            await self._keep_ready(request, resource, verdict, was_ready=was_ready)
            return Result(after=_LOOK_AGAIN)
        problem, *problems = conflicts.problems.items()
        verdict = failed(str(SpecError(*problem, *problems)), SpecError.reason)
        result = await self._report(request, resource, Report(conditions={"Ready": verdict}, keep_others=True))
        # No watch tells when the other resource is gone.
        return Result(after=min(result.after or _ASK_AGAIN, _ASK_AGAIN))

    async def _keep_ready(self, request: Request, resource: Cached, verdict: Verdict, *, was_ready: bool) -> Result:
        """Report that the remote side is not known to have become worse: a resource that was ready stays ready."""
        ready = READY if was_ready else verdict
        progress = verdict if was_ready else None
        return await self._report(
            request, resource, Report(conditions={"Ready": ready}, progress=progress, keep_others=True)
        )

    async def _delete(self, request: Request, resource: Cached) -> Result:
        """Remove the remote side and let the resource go."""
        if FINALIZER not in resource.meta.finalizers:
            return Result()
        twin = self._twin_of(request, resource)
        if twin and await self._waits_for(request, resource, *twin):
            verdict = Verdict(State.PROGRESSING, f"deleting: waiting for {twin[0].handle}/{request.name}", "Deleting")
            await self._report(request, resource, Report(conditions={"Ready": verdict}, keep_others=True))
            return Result(after=_LOOK_AGAIN)
        world = self._engine.world
        returns = await comes_back(world, world.resource(request.kind), resource.meta)
        if returns is None and delay(self._engine.world, resource) < PATIENCE:
            verdict = Verdict(State.PROGRESSING, "deleting: waiting for the first pass over its owner", "Deleting")
            await self._report(request, resource, Report(conditions={"Ready": verdict}, keep_others=True))
            return Result(after=1)
        if returns and (paused := world.plans.paused_recreator(world.resource(request.kind), resource.meta)):
            # Nothing says yet whether the remote side is still wanted.
            name = f"{world.resource(paused.kind).kind}/{paused.name}"
            verdict = Verdict(State.PROGRESSING, f"deleting: waiting for {name} to be resumed", "Deleting")
            await self._report(request, resource, Report(conditions={"Ready": verdict}, keep_others=True))
            return Result(after=_ASK_AGAIN)
        if returns:
            where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
            _log.warning("was deleted, but its owner recreates it: nothing is removed", **where)
        # Where the twin stays, a user deleted this resource alone.
        context = None if twin or returns else await self._removal_context(request, resource)
        if context is not None:
            try:
                await self._change(self._actuator.remove, context)
            except Transient as error:
                verdict = Verdict(State.PROGRESSING, f"deleting: {error}", "Deleting")
                await self._report(request, resource, Report(conditions={"Ready": verdict}, keep_others=True))
                return Result(after=_REMOVE_AGAIN)
            except SpecError as error:
                # To keep the resource would not make the remote side accept it.
                _log.warning("left behind", kind=request.kind, name=request.name, error=str(error))
        await drop(self._engine.world, request, resource, FINALIZER)
        return Result()

    def _twin_of(self, request: Request, resource: Cached) -> tuple[Kind, Cached] | None:
        try:
            return self._find_twin(request, parse(self._type, resource.decode()))
        except SpecError:
            return None

    def _find_twin(self, request: Request, spec: Model) -> tuple[Kind, Cached] | None:
        """Return the object another operator has for the same thing, with its kind; None where it has none."""
        handle = self._actuator.external_kind(spec) if self._actuator.external_kind else ""
        for kind, store in self._engine.world.stores.items():
            if kind.handle == handle and (match := store.get(request.namespace, request.name)):
                return kind, match
        return None

    async def _waits_for(self, request: Request, resource: Cached, kind: Kind, twin: Cached) -> bool:
        """Return whether another operator's object has to go first, before the thing that both are for."""
        if twin.meta.deletion_timestamp is None:
            # The user who deletes this one may not have deleted the other yet.
            return delay(self._engine.world, resource) < PATIENCE
        await remove_stuck_finalizer(self._engine.world, request, kind, twin)
        return True

    async def _recreate(self, request: Request, twin: tuple[Kind, Cached] | None) -> None:
        """Delete the object of the other operator. Its owner creates it again, and that operator looks at a new one."""
        if twin and twin[1].meta.deletion_timestamp is None:
            verdict = judge(twin[1].decode())
            if verdict.ready or verdict.state is State.FAILED:
                where = {"namespace": request.namespace, "name": request.name}
                _log.info("deleted for recreation, since its operator does not react", kind=twin[0].handle, **where)
                await delete(self._engine.world, *twin, "Background", by=request)
                if owner := twin[1].meta.controller:
                    name = f"{twin[0].kind}/{twin[1].meta.name}"
                    self._engine.apply_cache.recreations.give_up(owner.uid, name)

    async def _removal_context(self, request: Request, resource: Cached) -> Context[Any] | None:
        """Return the context to remove with; None where the remote side ends itself or cannot be addressed anymore."""
        try:
            spec = parse(self._type, resource.decode())
        except SpecError:
            return None
        refs = [ref for _, ref in references(spec)]
        if any(self._is_leaving(request, ref) for ref in refs) or await self._is_namespace_ending(request):
            return None
        context = (await self._engine.gatherer.gather(self._type, resource, spec, admin=True)).context
        if self._ownership:
            context = replace(context, conflicting_fields=frozenset(self._ownership.conflicts(resource).problems))
        for resolved in context.refs.values():
            admin = resolved.published.get(ADMIN_SECRET)
            if not resolved.published or (admin and admin not in context.secrets):
                return None
        return context

    def _is_leaving(self, request: Request, ref: Ref) -> bool:
        """Return whether the remote side is gone or about to be, itself or with a resource it belongs to."""
        world = self._engine.world
        target = world.find(ref.kind, request.namespace, ref.name)
        while target is not None and target.meta.deletion_timestamp is None:
            controller = target.meta.controller
            if controller is None or not world.is_ours(controller.handle):
                return False
            target = world.get(Request(controller.handle, request.namespace, controller.name))
        return True

    async def _is_namespace_ending(self, request: Request) -> bool:
        try:
            namespace = await self._engine.world.client.get(NAMESPACE, None, request.namespace)
        except Forbidden:
            return False
        return namespace is None or "deletionTimestamp" in namespace["metadata"]

    async def _report(self, request: Request, resource: Cached, report: Report) -> Result:
        return Result(after=await self._engine.reporter.report(request, resource, report))


def _unready_refs(resource: Cached, context: Context[Any]) -> list[str]:
    """Return referents that are not ready yet. A resource that is part of its referent cannot wait until that is
    complete: it exists, so the referent has what it needs. What stands for a Node is part of what its labels name.
    """
    owner, part_of = resource.meta.controller, resource.meta.owner_labels[1:] if resource.meta.node else ()
    return [
        f"{ref.kind}/{ref.name}"
        for ref, resolved in context.refs.items()
        if not resolved.verdict.ready
        and not (owner and (owner.kind, owner.name) == (ref.kind, ref.name))
        and part_of != (ref.kind.lower(), fitting(ref.name))
    ]
