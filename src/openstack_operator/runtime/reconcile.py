"""One pass over one resource: read, gather, plan, carry out, prune, report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from types import MappingProxyType

import structlog

from ..api import Model, references
from ..kube import RECREATED
from ..plan import Object, State, Step, Transient, Verdict, carry_out, conditions
from ..plan.steps import WORKLOADS
from .apply import Applier
from .contention import CONTENDED, advice
from .diagnosis import Diagnostician
from .events import RECREATION
from .finalizers import PATIENCE, comes_back, drop, finish_deletions, going, is_deletion_pending, orphan, orphan_pods
from .gather import Gathered, parse
from .kinds import Kind
from .limits import check_limits
from .passes import Next, Parts
from .planning import planned
from .process import together
from .registry import Service
from .report import Report
from .rollout_gate import PATIENCE as ROLLOUT_PATIENCE
from .rollout_gate import Required, Rollout, RolloutGate
from .scale import scale_status
from .store import Cached, Request
from .teardown import FINALIZER, Teardown

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_LONGEST_SLEEP = 86_400.0
_LOOK_AGAIN = 3.0
"""Seconds between looks at what is being deleted."""


class Reconciler:
    """Keeps resources of one kind as their plans say."""

    def __init__(self, service: Service, parts: Parts) -> None:
        self.resource = service.resource
        self._service = service
        self._parts = parts
        self._teardown = Teardown(service, parts.world, parts.gatherer) if service.teardown else None

    async def reconcile(self, request: Request, held: Cached) -> Next:
        """One pass; its outcome is reported, whatever it was, except for Transient and what nobody foresaw."""
        if held.meta.deletion_timestamp is not None:
            return await self._delete(request, held)
        if self._teardown and self._service.teardown is True:
            held = await self._teardown.hold(request, held)
        check_limits(held.raw)
        spec = parse(self.resource, held.decode())
        if self._teardown and callable(self._service.teardown) and self._service.teardown(spec):
            held = await self._teardown.hold(request, held)
        gathered = await self._parts.gatherer.gather(self.resource, held, spec)
        if gathered.missing:
            return await self._report(request, held, Report(conditions={"Ready": gathered.missing}, partial=True))
        return await self._carry_out(request, held, gathered)

    async def _carry_out(self, request: Request, held: Cached, gathered: Gathered) -> Next:
        context, world = gathered.context, self._parts.world
        if self._service.observe:
            facts = await self._service.observe(world.client, context)
            context = replace(context, facts=facts)
        plan = await planned(self._service, context)
        world.plans.settle(request, held.meta.uid, plan.objects)
        kind, children = world.resource(request.kind), gathered.children
        applier = Applier(world, self._parts.memo, request, held, kind, context.now, children)
        gate = self._gate(request, held, context.spec, context.now, applier, children)
        version = self._parts.reporter.version
        diagnostician = Diagnostician(world, request, context.now, self._parts.memo, version)
        rule = world.claims.judge(request, diagnostician.judge)
        verdicts = await carry_out(plan, partial(gate.apply, applier.apply), rule, applier.present, gate.blocked_by)
        world.claims.settle(request, plan.objects)
        gate.close()
        self._note_outdated(held, verdicts, applier, context.now)
        found = conditions(plan, verdicts)
        try:
            await applier.prune(plan, gathered.children)
        except Transient as error:
            found["Ready"] = Verdict(State.RETRYING, str(error))
        names = [f"{obj['kind']}/{obj['metadata']['name']}" for obj in plan.objects]
        there = [f"{kind.kind}/{child.meta.name}" for kind, child in gathered.children]
        recreated = self._parts.memo.recreations.note(held.meta.uid, names, there, applier.changes)
        await self._tell(request, held, applier, diagnostician, recreated)
        phase = self._service.phases(MappingProxyType(found)) if self._service.phases else None
        outcome = plan.outcome
        report = Report(
            conditions=found,
            published=outcome.published,
            endpoint=outcome.endpoint,
            phase=phase,
            members=outcome.members,
            details={**outcome.details, **scale_status(self.resource.scale, context)},
            release=context.spec.runs_release,
            outdated=diagnostician.outdated,
            is_service=True,
        )
        then = await self._report(request, held, report)
        wake = _seconds_until(outcome.wake, context.now)
        waits = (then.after, wake, applier.again, gate.retry_after, diagnostician.again)
        after = min((wait for wait in waits if wait is not None), default=None)
        is_retried = any(verdict.state is State.RETRYING for verdict in found.values())
        return Next(after=after, retry=is_retried, slowly=is_retried and applier.forbidden)

    def _gate(
        self,
        request: Request,
        held: Cached,
        spec: Model,
        now: datetime,
        applier: Applier,
        children: Sequence[tuple[Kind, Cached]],
    ) -> RolloutGate:
        world = self._parts.world

        def find(obj: Object) -> Cached | None:
            return world.stores[world.catalog.of(obj)].get(request.namespace, obj["metadata"]["name"])

        def is_made_by_another(rollout: Rollout) -> bool:
            # Anybody may write an owner reference or labels; what counts is the plan of the resource that they name.
            maker = world.plans.maker(rollout.kind, rollout.meta).request
            return maker is not None and maker != request

        return RolloutGate(
            self._parts.memo.rollouts,
            request,
            held.meta.uid,
            now,
            find=find,
            workloads=frozenset(child.meta.uid for kind, child in children if kind.kind in WORKLOADS),
            replaces_pods=applier.replaces_pods,
            required=partial(self._required, request, spec, now),
            is_made_by_another=is_made_by_another,
        )

    def _required(self, request: Request, spec: Model, now: datetime) -> Iterator[Required]:
        """The resources that a resource refers to and requires, of which none requires it."""
        world, outdated = self._parts.world, self._parts.memo.rollouts.outdated
        for ref in dict.fromkeys(ref for _, ref in references(spec) if not ref.optional):
            for kind in world.kinds(ref.kind):
                target = Request(kind.handle, request.namespace, ref.name)
                if (held := world.held(target)) is None:
                    continue
                uid = held.meta.uid
                # Labels alone make nothing its own: anybody may set them.
                children = [child.meta for _, child in world.children(target)]
                own = frozenset(meta.uid for meta in children if (by := meta.controller) and by.uid == uid)
                if own:
                    since = outdated.get(uid)
                    is_outdated = since is not None and now < since + ROLLOUT_PATIENCE
                    yield Required(f"{ref.kind}/{ref.name}", own, queued=world.is_pending(target), outdated=is_outdated)

    def _note_outdated(self, held: Cached, verdicts: Mapping[Step, Verdict], applier: Applier, now: datetime) -> None:
        """Remembers since when workloads of a resource wait for another pod template. While they wait for their turn no
        time counts: what requires the resource comes after it, however many come before.
        """
        outdated = self._parts.memo.rollouts.outdated
        waiting = [
            verdict
            for step, verdict in verdicts.items()
            if not verdict.ready and any(map(applier.replaces_pods, step.workloads))
        ]
        if any(verdict.turn_after for verdict in waiting):
            outdated[held.meta.uid] = now
        elif waiting:
            outdated.setdefault(held.meta.uid, now)
        else:
            outdated.pop(held.meta.uid, None)

    async def _tell(
        self, request: Request, held: Cached, applier: Applier, diagnostician: Diagnostician, recreated: Sequence[str]
    ) -> None:
        """Logs what this pass did, in one line, and writes an Event for what users follow."""
        if applier.changes:
            where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
            _log.info("applied", objects=applier.changes, **where)
        news = {
            "Rotated": ("renewed", applier.renewed),
            "RolloutStarted": ("replacing the pods of", applier.rollouts),
            "RolloutFinished": ("replaced the pods of", diagnostician.rolled_out),
        }
        kind, recorder = self._parts.world.resource(request.kind), self._parts.reporter.recorder
        for reason, (what, names) in news.items():
            if names:
                await recorder.note(held, kind, reason, f"{what} {', '.join(names)}")
        for text in diagnostician.endangered:
            await recorder.warn(held, kind, "VolumeDeleting", text)
        for contended, name in applier.contended:
            await recorder.warn(held, kind, CONTENDED, advice(contended, name, request.namespace))
        if recreated:
            await recorder.note(held, kind, RECREATION, f"recreated {', '.join(recreated)}, which somebody deleted")

    async def _delete(self, request: Request, held: Cached) -> Next:
        """Kubernetes collects what belongs to a deleted resource; only a teardown in order is ours. What its owner
        makes again leaves everything in place.
        """
        if RECREATED in held.meta.finalizers:
            world = self._parts.world
            returns = await comes_back(world, world.resource(request.kind), held.meta)
            if returns is None and going(held) < PATIENCE:
                return await self._deleting(request, held, "its owner to be looked at", again=1)
            if returns:
                return await self._recreated(request, held)
            await drop(world, request, held, RECREATED)
            if (held := world.held(request) or held).meta.deletion_timestamp is None:
                return Next()
        waits_for = await self._teardown.advance(request, held) if self._teardown else ""
        if not waits_for:
            # Who deletes with Foreground has Kubernetes wait for what belongs to the resource.
            unsettled = await finish_deletions(self._parts.world, request)
            return Next(after=1) if unsettled else Next()
        return await self._deleting(request, held, waits_for)

    async def _recreated(self, request: Request, held: Cached) -> Next:
        """Lets a resource go that comes back, without what it made: the next one of its name takes that over."""
        world = self._parts.world
        children = [(kind, child) for kind, child in world.children(request) if child.meta.controller]
        await together(orphan(world, request, kind, child, held.meta.uid) for kind, child in children)
        await together(
            orphan_pods(world, request, kind, child) for kind, child in children if is_deletion_pending(kind, child)
        )
        where = {"kind": request.kind, "namespace": request.namespace, "name": request.name}
        _log.warning("was deleted, but its owner makes it again: what it made stays", **where)
        for finalizer in (FINALIZER, RECREATED):
            if current := world.held(request):
                await drop(world, request, current, finalizer)
        return Next()

    async def _deleting(self, request: Request, held: Cached, waits_for: str, again: float = _LOOK_AGAIN) -> Next:
        verdict = Verdict(State.PROGRESSING, f"deleting: waiting for {waits_for}", "Deleting")
        then = await self._report(request, held, Report(conditions={"Ready": verdict}, partial=True))
        # What other operators do not let go in time is let go for them, and nothing tells when that is.
        return Next(after=min(then.after or again, again))

    async def _report(self, request: Request, held: Cached, report: Report) -> Next:
        return Next(after=await self._parts.reporter.report(request, held, report))


def _seconds_until(moment: datetime | None, now: datetime) -> float | None:
    if moment is None:
        return None
    return min(max((moment - now).total_seconds(), 1.0), _LONGEST_SLEEP)
