"""Faults planted in an operator: a search that does not find them proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from openstack_operator.kube import RETAIN
from openstack_operator.plan import Context, Object, Plan, SpecError, key
from openstack_operator.plan.steps import WORKLOADS
from openstack_operator.runtime.cache.entries import Cached, Request
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.reconcile.finalizers import delete
from openstack_operator.runtime.reconcile.passes import Result

from .world import World


def leave_objects(world: World) -> None:
    """Delete nothing that a plan lacks."""

    async def prune_nothing(work: Any, plan: Plan) -> None:
        del work, plan

    cast("Any", world.reconciler)._prune = prune_nothing


def prune_inputs_at_once(world: World) -> None:
    """Delete what pods need to start as soon as a plan lacks it."""
    everything = world.manager.world

    async def prune_at_once(work: Any, plan: Plan) -> None:
        keys = {key(obj) for obj in plan.objects}
        for kind, child in work.children:
            is_owned = child.meta.controller is not None and child.meta.annotations.get(RETAIN) != "true"
            if is_owned and (kind.handle, child.meta.name) not in keys:
                await delete(everything, kind, child, "Background", by=work.request)

    cast("Any", world.reconciler)._prune = prune_at_once


def leave_fields(world: World) -> None:
    """Keep the fields of an object that its plan no longer has."""
    client = world.manager.world.client
    apply = client.apply

    async def apply_over_live(kind: Kind, obj: Object) -> Object:
        live = await client.get(kind, obj["metadata"]["namespace"], obj["metadata"]["name"])
        parts = {name: _over((live or {}).get(name), value) for name, value in obj.items() if name in ("spec", "data")}
        return await apply(kind, {**obj, **parts})

    client.apply = apply_over_live


def _over(live: Any, new: Any) -> Any:
    if not isinstance(live, Mapping) or not isinstance(new, Mapping):
        return new
    before, after = cast("Mapping[str, Any]", live), cast("Mapping[str, Any]", new)
    return {**before, **{name: _over(before.get(name), value) for name, value in after.items()}}


def remember_size(world: World) -> None:
    """Never run fewer pods than before."""
    service, largest = world.service, dict[str, int]()

    def plan(context: Context[Any]) -> Plan:
        made = service.plan(context)
        for obj in made.objects:
            if obj["kind"] in WORKLOADS and "replicas" in (obj.get("spec") or {}):
                name = obj["metadata"]["name"]
                largest[name] = obj["spec"]["replicas"] = max(obj["spec"]["replicas"], largest.get(name, 0))
        return made

    cast("Any", world.reconciler)._service = replace(service, plan=plan)


def stop_what_is_refused(world: World) -> None:
    """Delete the programs of a resource whose spec is refused."""
    reconciler = world.reconciler
    reconcile = reconciler.reconcile

    async def reconcile_or_stop(request: Request, resource: Cached) -> Result:
        try:
            return await reconcile(request, resource)
        except SpecError:
            for kind, child in world.manager.world.children(request):
                if kind.kind in WORKLOADS:
                    await delete(world.manager.world, kind, child, "Background", by=request)
            raise

    reconciler.reconcile = reconcile_or_stop


def name_no_field(world: World) -> None:
    """Say only that a spec is wrong."""
    reconciler = world.reconciler
    reconcile = reconciler.reconcile

    async def reconcile_or_complain(request: Request, resource: Cached) -> Result:
        try:
            return await reconcile(request, resource)
        except SpecError:
            raise SpecError("", "a value is wrong") from None

    reconciler.reconcile = reconcile_or_complain


def give_up(world: World) -> None:
    """Look at no later spec once one was refused."""
    reconciler = world.reconciler
    reconcile, refused = reconciler.reconcile, set[Request]()

    async def reconcile_once(request: Request, resource: Cached) -> Result:
        if request in refused:
            return Result()
        try:
            return await reconcile(request, resource)
        except SpecError:
            refused.add(request)
            raise

    reconciler.reconcile = reconcile_once


PLANTED = (leave_objects, leave_fields, remember_size, stop_what_is_refused, name_no_field, give_up)
