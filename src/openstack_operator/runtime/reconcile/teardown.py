"""Teardown: deletion of children in the reverse order of the plan, so that those which others still need go last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...plan import Context, Plan, Service, SpecError, key
from ..cache.entries import Cached, Request
from ..cache.world import World
from ..kubernetes.kinds import Kind
from ..process import gather_errors
from .finalizers import add, delete, drop, finish_deletion, remove_stuck_finalizer
from .gather import Gatherer, parse
from .planning import Planner

FINALIZER = "openstack.k8s.io/teardown"
_FOREGROUND = "foregroundDeletion"
"""Kubernetes' own finalizer, by which an object stays until its children are gone."""

Children = tuple[tuple[Kind, Cached], ...]


class Teardown:
    """Deletion in order, for a resource whose children need each other while they go."""

    def __init__(self, service: Service, world: World, gatherer: Gatherer, planner: Planner) -> None:
        self._service = service
        self._world = world
        self._gatherer = gatherer
        self._make_plan = planner

    async def hold(self, request: Request, resource: Cached) -> Cached:
        """Return the resource with the finalizer that keeps it until its teardown is done."""
        return await add(self._world, request, resource, FINALIZER)

    async def advance(self, request: Request, resource: Cached) -> str:
        """Delete the next step's objects; return the objects still to go, empty once the resource is released."""
        if FINALIZER not in resource.meta.finalizers:
            return ""
        plan, children = await self._plan(request, resource)
        stage = _last_stage(
            plan, [(kind, child) for kind, child in children if child.meta.controller or child.meta.node]
        )
        if not stage:
            await drop(self._world, request, resource, FINALIZER)
            return ""
        await gather_errors(
            delete(self._world, kind, child, _policy(kind, child), by=request)
            for kind, child in stage
            if _needs_delete(kind, child)
        )
        await gather_errors(
            finish_deletion(self._world, request, kind, child) for kind, child in self._world.children(request)
        )
        await gather_errors(
            remove_stuck_finalizer(self._world, request, kind, child)
            for kind, child in children
            if child.meta.deletion_timestamp is not None
        )
        return ", ".join(f"{kind.kind}/{child.meta.name}" for kind, child in stage)

    async def _plan(self, request: Request, resource: Cached) -> tuple[Plan | None, Children]:
        """Return the plan, None where none can be made, and the existing children."""
        try:
            spec = parse(self._service.resource, resource.decode())
            gathered = await self._gatherer.gather(self._service.resource, resource, spec)
            context: Context[Any] = gathered.context
            plan = None if gathered.missing else await self._make_plan(self._service, context)
            return plan, gathered.children
        except (SpecError, LookupError, ValueError):
            # A plan that fails, be it a fault of ours, must not keep the user from getting rid of the resource.
            children = ((kind, child) for kind, child in self._world.children(request))
            owned = (
                (k, c)
                for k, c in children
                if c.meta.node or (c.meta.controller and c.meta.controller.uid == resource.meta.uid)
            )
            return None, tuple(owned)


def _policy(kind: Kind, child: Cached) -> str:
    """Return the deletion policy. Foreground: the object stays until its children are gone, so its absence proves that.
    Background for one with a teardown of its own, whose children the collector would delete all at once, and for one
    whose operator recreates the children as long as the object exists: it could stay for good.
    """
    return "Background" if kind.recreates_children or FINALIZER in child.meta.finalizers else "Foreground"


def _needs_delete(kind: Kind, child: Cached) -> bool:
    """Return True if it still needs a deletion, or one by the policy of its kind: Kubernetes passes Foreground on."""
    return child.meta.deletion_timestamp is None or (kind.recreates_children and _FOREGROUND in child.meta.finalizers)


def _last_stage(plan: Plan | None, children: Iterable[tuple[Kind, Cached]]) -> list[tuple[Kind, Cached]]:
    """Return the objects to delete next: those that the plan lacks, then those of the last step that has any left."""
    remaining = {(kind.handle, child.meta.name): (kind, child) for kind, child in children}
    if plan is None:
        return list(remaining.values())
    plan_keys = {key(obj) for obj in plan.objects}
    unplanned = [entry for name, entry in remaining.items() if name not in plan_keys]
    if unplanned:
        return unplanned
    for step in reversed(list(plan)):
        if stage := [remaining[key(obj)] for obj in step.objects if key(obj) in remaining]:
            return stage
    return []
