"""One pass over one resource: read, gather, plan, carry out, prune, report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

import structlog

from ...api import Model, references
from ...kube import RECREATED
from ...plan import (
    Context,
    Object,
    Plan,
    Service,
    State,
    Step,
    Transient,
    Verdict,
    carry_out,
    conditions,
    image_fields,
    progress_count,
)
from ...plan.steps import WORKLOADS
from .. import metrics
from ..cache.entries import Cached, Request
from ..clock import steady
from ..guards.protection import protect_volume_claims
from ..kubernetes.kinds import Kind
from ..kubernetes.limits import check_limits
from ..process import gather_errors
from ..rollout.gate import PATIENCE as ROLLOUT_PATIENCE
from ..rollout.gate import FollowedRollout, Required, RolloutGate
from ..rollout.scale import scale_status
from ..rollout.still_serving import with_service
from .apply import Applier
from .contention import CONTENDED, advice
from .diagnosis import Diagnostician
from .events import RECREATION
from .finalizers import PATIENCE, comes_back, delay, drop, finish_deletions, is_deletion_pending, orphan, orphan_pods
from .gather import Gathered, parse
from .observers import Observer
from .passes import Engine, Result
from .pod_deletions import PodDeleter
from .prune import prune
from .report import Report
from .teardown import FINALIZER, Teardown

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_LONGEST_SLEEP = 86_400.0
_LOOK_AGAIN = 3.0
"""Seconds between looks at what is being deleted."""


@dataclass(frozen=True, kw_only=True)
class _PassContext:
    """One pass over a resource: what it is made from, and what writes and judges its objects."""

    request: Request
    resource: Cached
    context: Context[Any]
    children: Sequence[tuple[Kind, Cached]]
    now: datetime
    """By the clock that only grows."""
    applier: Applier
    diagnostician: Diagnostician
    gate: RolloutGate


class Reconciler:
    """A reconciler of the resources of one kind with their plans."""

    def __init__(self, service: Service, engine: Engine, observer: Observer) -> None:
        self._type = service.resource
        self._service = service
        self._engine = engine
        self._observer = observer
        self._teardown = Teardown(service, engine.world, engine.gatherer, engine.planner) if service.teardown else None

    async def reconcile(self, request: Request, resource: Cached) -> Result:
        """Make one pass, and report its outcome, whatever it was, except for Transient and unforeseen errors."""
        if resource.meta.deletion_timestamp is not None:
            return await self._delete(request, resource)
        check_limits(resource.raw)
        spec = parse(self._type, resource.decode())
        # What is refused makes nothing, so that nothing is to be removed in order either.
        teardown = self._service.teardown
        if self._teardown and (teardown(spec) if callable(teardown) else teardown):
            resource = await self._teardown.hold(request, resource)
        inputs = await self._engine.gatherer.gather(self._type, resource, spec)
        if inputs.missing:
            report = Report(conditions={"Ready": inputs.missing}, keep_others=True)
            return (await self._report(request, resource, report)).within(inputs.recheck_after)
        return await self._carry_out(request, resource, inputs)

    async def note_plan(self, request: Request, resource: Cached) -> Result:
        """Plan a paused resource once in the life of this process. What it made waits for that plan, which says that it
        made it.
        """
        if self._engine.world.plans.is_known(request, resource.meta.uid):
            return Result()
        check_limits(resource.raw)
        inputs = await self._engine.gatherer.gather(self._type, resource, parse(self._type, resource.decode()))
        if inputs.missing:
            return Result(inputs.recheck_after)
        await self._plan(request, resource, inputs.context)
        return Result()

    async def _plan(self, request: Request, resource: Cached, context: Context[Any]) -> tuple[Context[Any], Plan]:
        """Return the plan, and the context with what was observed for it."""
        if self._service.observes:
            context = replace(context, facts=await self._observer.observe(self._service.observes, context))
        plan = await self._engine.planner(self._service, context)
        self._engine.world.plans.settle(request, resource.meta.uid, plan.objects)
        return context, plan

    async def _carry_out(self, request: Request, resource: Cached, inputs: Gathered) -> Result:
        context, plan = await self._plan(request, resource, inputs.context)
        work = self._work(request, resource, context, inputs.children)
        verdicts = await self._apply(work, plan)
        pruning = await self._prune(work, plan)
        return await self._report_outcome(work, plan, verdicts, pruning)

    def _work(
        self, request: Request, resource: Cached, context: Context[Any], children: Sequence[tuple[Kind, Cached]]
    ) -> _PassContext:
        engine, now = self._engine, steady()
        world, kind = engine.world, engine.world.resource(request.kind)
        applier = Applier(
            world,
            engine.apply_cache,
            request,
            resource,
            kind,
            context.now,
            children,
            now,
            node_claims=engine.node_claims,
        )
        fields = image_fields(context.spec)
        diagnostician = Diagnostician(
            world, request, context.now, engine.apply_cache, engine.reporter.version, steady=now, image_fields=fields
        )
        return _PassContext(
            request=request,
            resource=resource,
            context=context,
            children=children,
            now=now,
            applier=applier,
            diagnostician=diagnostician,
            gate=self._gate(request, resource, context.spec, now, applier, children),
        )

    async def _apply(self, work: _PassContext, plan: Plan) -> Mapping[Step, Verdict]:
        """Carry out the plan as far as its steps are ready, and return how far each one is."""
        engine, request = self._engine, work.request
        pod_deleter = PodDeleter(engine.world, request, work.applier)
        try:
            verdicts = await carry_out(
                plan,
                metrics.timed(metrics.STEP_SECONDS.labels(request.kind), partial(work.gate.apply, pod_deleter.apply)),
                engine.node_claims.judge(request, work.diagnostician.judge),
                work.applier.is_present,
                work.gate.blocked_by,
                engine.outlook,
            )
        finally:
            work.gate.close()
        engine.node_claims.settle(request, plan.objects)
        self._note_waits(work.resource, verdicts, work.applier, work.now)
        return verdicts

    async def _prune(self, work: _PassContext, plan: Plan) -> Verdict | None:
        """Delete what the plan lacks, and mark what others must not delete. Return a verdict if that failed for now."""
        try:
            after = await prune(self._engine.world, work.request, plan, work.children, work.applier.changes)
            if after is not None:
                work.applier.recheck_in(after)
            await protect_volume_claims(self._engine.world, work.request)
        except Transient as error:
            return Verdict(State.RETRYING, str(error))
        return None

    async def _report_outcome(
        self, work: _PassContext, plan: Plan, verdicts: Mapping[Step, Verdict], pruning: Verdict | None
    ) -> Result:
        """Write the status and Events of a pass, and return when to look at the resource again."""
        request, context, applier, diagnostician = work.request, work.context, work.applier, work.diagnostician
        condition_verdicts = conditions(plan, verdicts)
        ready = condition_verdicts["Ready"] = with_service(
            pruning or condition_verdicts["Ready"],
            plan,
            verdicts,
            partial(self._live, request.namespace),
            is_installed=bool(context.running_release),
        )
        await self._report_changes(work, plan, serves=ready.ready or bool(ready.serves))
        phase = self._service.phases(MappingProxyType(condition_verdicts)) if self._service.phases else None
        outcome = plan.outcome
        report = Report(
            conditions=condition_verdicts | applier.foreign.conditions(),
            published=outcome.published,
            endpoint=outcome.endpoint,
            phase=phase,
            members=outcome.members,
            details={**outcome.details, **scale_status(self._type.scale, context)},
            release=plan.release or context.spec.runs_release,
            outdated=diagnostician.is_outdated,
            is_service=True,
            progress_count=progress_count(plan, verdicts),
        )
        result = await self._report(request, work.resource, report)
        waits = (
            result.after,
            _seconds_until(outcome.wake, context.now),
            applier.recheck_after,
            applier.foreign.recheck_after,
            work.gate.retry_after,
            diagnostician.recheck_after,
        )
        after = min((wait for wait in waits if wait is not None), default=None)
        is_retried = any(verdict.state is State.RETRYING for verdict in condition_verdicts.values())
        return Result(after=after, retry=is_retried, slowly=is_retried and applier.is_forbidden)

    def _recreated(
        self, resource: Cached, applier: Applier, plan: Plan, children: Sequence[tuple[Kind, Cached]]
    ) -> Sequence[str]:
        """Return the objects that the pass made again, since a user had deleted them."""
        names = [f"{obj['kind']}/{obj['metadata']['name']}" for obj in plan.objects]
        child_names = [f"{kind.kind}/{child.meta.name}" for kind, child in children]
        return self._engine.apply_cache.recreations.note(resource.meta.uid, names, child_names, applier.changes)

    def _gate(
        self,
        request: Request,
        resource: Cached,
        spec: Model,
        now: datetime,
        applier: Applier,
        children: Sequence[tuple[Kind, Cached]],
    ) -> RolloutGate:
        world = self._engine.world

        def is_made_by_another(rollout: FollowedRollout) -> bool:
            # Every user may write an owner reference or labels; what counts is the plan of the resource that they name.
            maker = world.plans.maker(rollout.kind, rollout.meta).request
            return maker is not None and maker != request

        return RolloutGate(
            self._engine.apply_cache.rollouts,
            request,
            resource.meta.uid,
            now,
            find=partial(self._find, request.namespace),
            workloads=frozenset(child.meta.uid for kind, child in children if kind.kind in WORKLOADS),
            replaces_pods=applier.replaces_pods,
            required=partial(self._required, request, spec, now),
            is_made_by_another=is_made_by_another,
        )

    def _find(self, namespace: str, obj: Object) -> Cached | None:
        world = self._engine.world
        return world.stores[world.catalog.of(obj)].get(namespace, obj["metadata"]["name"])

    def _live(self, namespace: str, obj: Object) -> Object | None:
        entry = self._find(namespace, obj)
        return entry.decode() if entry else None

    def _required(self, request: Request, spec: Model, now: datetime) -> Iterator[Required]:
        """Yield the resources that a resource refers to and requires, of which none requires it."""
        world, outdated = self._engine.world, self._engine.apply_cache.rollouts.outdated
        for ref in dict.fromkeys(ref for _, ref in references(spec) if not ref.optional):
            for kind in world.kinds(ref.kind):
                target = Request(kind.handle, ref.namespace_in(request.namespace), ref.name)
                if (dependency := world.get(target)) is None:
                    continue
                uid = dependency.meta.uid
                # Labels alone make nothing its own: every user may set them.
                children = [child.meta for _, child in world.children(target)]
                ids = frozenset(meta.uid for meta in children if (by := meta.controller) and by.uid == uid)
                if ids:
                    since = outdated.get(uid)
                    is_outdated = since is not None and now < since + ROLLOUT_PATIENCE
                    yield Required(f"{ref.kind}/{ref.name}", ids, queued=world.is_pending(target), outdated=is_outdated)

    def _note_waits(self, resource: Cached, verdicts: Mapping[Step, Verdict], applier: Applier, now: datetime) -> None:
        """Remember since when workloads of a resource wait for another pod template. While they wait for their turn no
        time counts: what requires the resource comes after it, however many come before.
        """
        outdated = self._engine.apply_cache.rollouts.outdated
        waiting = [
            verdict
            for step, verdict in verdicts.items()
            if not verdict.ready and any(map(applier.replaces_pods, step.workloads))
        ]
        if any(verdict.turn_after for verdict in waiting):
            outdated[resource.meta.uid] = now
        elif waiting:
            outdated.setdefault(resource.meta.uid, now)
        else:
            outdated.pop(resource.meta.uid, None)

    async def _report_changes(self, work: _PassContext, plan: Plan, *, serves: bool) -> None:
        """Log what this pass did, in one line, and write an Event for what users follow."""
        request, resource, applier = work.request, work.resource, work.applier
        recreated = self._recreated(resource, applier, plan, work.children)
        if applier.changes:
            where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
            _log.info("applied", objects=applier.changes, **where)
        events = {
            # What a first installation writes a second time replaces nothing that anybody uses.
            "Rotated": ("renewed", applier.rotations if serves else ()),
            "RolloutStarted": ("replacing the pods of", applier.rollouts),
            "RolloutFinished": ("replaced the pods of", work.diagnostician.rolled_out),
        }
        kind, recorder = self._engine.world.resource(request.kind), self._engine.reporter.recorder
        for reason, (action, names) in events.items():
            if names:
                await recorder.note(resource, kind, reason, f"{action} {', '.join(names)}")
        for text in work.diagnostician.volume_warnings:
            await recorder.warn(resource, kind, "VolumeDeleting", text)
        for text in applier.foreign.removed:
            await recorder.warn(resource, kind, "Removed", text)
        for contended_kind, name in applier.contended_objects:
            await recorder.warn(resource, kind, CONTENDED, advice(contended_kind, name, request.namespace))
        if recreated:
            await recorder.note(resource, kind, RECREATION, f"recreated {', '.join(recreated)}, which a user deleted")

    async def _delete(self, request: Request, resource: Cached) -> Result:
        """Let a deleted resource go. Kubernetes deletes what belongs to it; only a teardown in order is the operator's.
        Where its owner makes it again, everything stays in place.
        """
        if RECREATED in resource.meta.finalizers:
            world = self._engine.world
            returns = await comes_back(world, world.resource(request.kind), resource.meta)
            if returns is None and delay(self._engine.world, resource) < PATIENCE:
                return await self._wait_for(request, resource, "the first pass over its owner", seconds=1)
            if returns:
                return await self._orphan_children(request, resource)
            await drop(world, request, resource, RECREATED)
            if (resource := world.get(request) or resource).meta.deletion_timestamp is None:
                return Result()
        blocker = await self._teardown.advance(request, resource) if self._teardown else ""
        if not blocker:
            # A user who deletes with Foreground has Kubernetes wait for what belongs to the resource.
            unsettled = await finish_deletions(self._engine.world, request)
            return Result(after=1) if unsettled else Result()
        return await self._wait_for(request, resource, blocker)

    async def _orphan_children(self, request: Request, resource: Cached) -> Result:
        """Let a resource go that comes back, without what it made: the next one of its name takes that over."""
        world = self._engine.world
        children = [(kind, child) for kind, child in world.children(request) if child.meta.controller]
        await gather_errors(orphan(world, request, kind, child, resource.meta.uid) for kind, child in children)
        await gather_errors(
            orphan_pods(world, request, kind, child) for kind, child in children if is_deletion_pending(kind, child)
        )
        where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
        _log.warning("was deleted, but its owner recreates it: its objects stay", **where)
        for finalizer in (FINALIZER, RECREATED):
            if current := world.get(request):
                await drop(world, request, current, finalizer)
        return Result()

    async def _wait_for(self, request: Request, resource: Cached, blocker: str, seconds: float = _LOOK_AGAIN) -> Result:
        verdict = Verdict(State.PROGRESSING, f"deleting: waiting for {blocker}", "Deleting")
        result = await self._report(request, resource, Report(conditions={"Ready": verdict}, keep_others=True))
        # What other operators do not let go in time is let go for them, and nothing tells when that is.
        return Result(after=min(result.after or seconds, seconds))

    async def _report(self, request: Request, resource: Cached, report: Report) -> Result:
        return Result(after=await self._engine.reporter.report(request, resource, report))


def _seconds_until(moment: datetime | None, now: datetime) -> float | None:
    if moment is None:
        return None
    return min(max((moment - now).total_seconds(), 1.0), _LONGEST_SLEEP)
