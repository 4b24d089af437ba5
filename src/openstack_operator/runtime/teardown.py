"""Deletes what a resource made in the reverse order of its plan, so that what others still need goes last."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..plan import Context, Plan, SpecError, key
from .finalizers import add, delete, drop, finish_deletion, release
from .gather import Gatherer, parse
from .kinds import Kind
from .planning import planned
from .process import together
from .registry import Service
from .store import Cached, Request
from .world import World

FINALIZER = "openstack.k8s.io/teardown"
_FOREGROUND = "foregroundDeletion"
"""Kubernetes' own, by which an object stays until what belongs to it is gone."""

Children = tuple[tuple[Kind, Cached], ...]


class Teardown:
    """Deletion in order, for a resource whose children need each other while they go."""

    def __init__(self, service: Service, world: World, gatherer: Gatherer) -> None:
        self._service = service
        self._world = world
        self._gatherer = gatherer

    async def hold(self, request: Request, held: Cached) -> Cached:
        """The resource with the finalizer that keeps it until its teardown is done."""
        return await add(self._world, request, held, FINALIZER)

    async def advance(self, request: Request, held: Cached) -> str:
        """Deletes the next step's objects; returns what is still to go, empty once the resource was let go."""
        if FINALIZER not in held.meta.finalizers:
            return ""
        plan, children = await self._plan(request, held)
        stage = _last_stage(
            plan, [(kind, child) for kind, child in children if child.meta.controller or child.meta.node]
        )
        if not stage:
            await drop(self._world, request, held, FINALIZER)
            return ""
        await together(
            delete(self._world, kind, child, _policy(kind, child), by=request)
            for kind, child in stage
            if _asks(kind, child)
        )
        await together(
            finish_deletion(self._world, request, kind, child) for kind, child in self._world.children(request)
        )
        await together(
            release(self._world, request, kind, child)
            for kind, child in children
            if child.meta.deletion_timestamp is not None
        )
        return ", ".join(f"{kind.kind}/{child.meta.name}" for kind, child in stage)

    async def _plan(self, request: Request, held: Cached) -> tuple[Plan | None, Children]:
        """The plan, None where none can be made, and the children there are."""
        try:
            spec = parse(self._service.resource, held.decode())
            gathered = await self._gatherer.gather(self._service.resource, held, spec)
            context: Context[Any] = gathered.context
            plan = None if gathered.missing else await planned(self._service, context)
            return plan, gathered.children
        except (SpecError, LookupError, ValueError):
            # A plan that fails, be it a fault of ours, must not keep the user from getting rid of the resource.
            found = ((kind, child) for kind, child in self._world.children(request))
            owned = (
                (k, c)
                for k, c in found
                if c.meta.node or (c.meta.controller and c.meta.controller.uid == held.meta.uid)
            )
            return None, tuple(owned)


def _policy(kind: Kind, child: Cached) -> str:
    """Foreground: the object stays until all that belongs to it is gone, so its absence says that much. One with an
    order of its own sees to that itself; the collector would take all of it at once. One whose operator makes anew what
    belongs to it, as long as the object is there, could stay for good.
    """
    return "Background" if kind.remade or FINALIZER in child.meta.finalizers else "Foreground"


def _asks(kind: Kind, child: Cached) -> bool:
    """Whether it is still to be deleted, or to be let go by the policy of its kind: Kubernetes passes Foreground on."""
    return child.meta.deletion_timestamp is None or (kind.remade and _FOREGROUND in child.meta.finalizers)


def _last_stage(plan: Plan | None, children: Iterable[tuple[Kind, Cached]]) -> list[tuple[Kind, Cached]]:
    """The objects to go next: what the plan does not know, then those of the last step that has any left."""
    left = {(kind.handle, child.meta.name): (kind, child) for kind, child in children}
    if plan is None:
        return list(left.values())
    planned = {key(obj) for obj in plan.objects}
    unknown = [entry for name, entry in left.items() if name not in planned]
    if unknown:
        return unknown
    for step in reversed(list(plan)):
        if stage := [left[key(obj)] for obj in step.objects if key(obj) in left]:
            return stage
    return []
