"""Deletion, and finalizers, which keep an object until the operator has cleaned up behind it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog

from ...kube import RECREATED
from ...plan import Object
from ...plan.steps import WORKLOADS
from ..cache.entries import Cached, Meta, Request, entry
from ..cache.plans import NoRecreator
from ..cache.world import World
from ..clock import now as wall_time
from ..clock import steady
from ..kubernetes.errors import Conflict, Missing
from ..kubernetes.kinds import Kind

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

PATIENCE = timedelta(seconds=20)
"""Time that another operator has to clean up its remote side."""
_UNRESPONSIVE = timedelta(minutes=5)
"""Time in which an operator that did not do so has less time for its other objects: else each would wait in turn."""
_SOON = timedelta(seconds=2)


async def add(world: World, request: Request, resource: Cached, finalizer: str) -> Cached:
    """Add the finalizer to the resource and return it; no write if it has it. Raises Transient."""
    if finalizer in resource.meta.finalizers:
        return resource
    return await _write(world, request, resource, [*resource.meta.finalizers, finalizer])


async def drop(world: World, request: Request, target: Cached, finalizer: str, kind: Kind | None = None) -> None:
    """Take the finalizer off the resource, or off its child of `kind`; no error if it is gone. Raises Transient."""
    if finalizer not in target.meta.finalizers:
        return
    try:
        await _write(world, request, target, [name for name in target.meta.finalizers if name != finalizer], kind)
    except Missing:
        return


async def delete(world: World, kind: Kind, target: Cached, policy: str, *, by: Request) -> None:
    """Delete exactly that object; while finalizers keep it, the store has it as being deleted. Raises Transient."""
    store = world.stores[kind]
    try:
        live = await world.client.delete(kind, target.meta.namespace, target.meta.name, target.meta.uid, policy)
    except Conflict:
        # Another object has the name by now; the watch will report it.
        return
    if live is None:
        store.remove(target, by=by)
    else:
        store.put(entry(live, kind), by=by)


def is_deletion_pending(kind: Kind, child: Cached) -> bool:
    """Return True if a workload is being deleted, and our finalizer still keeps it."""
    return kind.kind in WORKLOADS and child.meta.deletion_timestamp is not None and RECREATED in child.meta.finalizers


async def is_alive(world: World, request: Request) -> bool:
    """Return True if a known resource, with its uid, is in the cluster and not being deleted. Raises Transient.

    When a resource goes, Kubernetes deletes its children, and the watches report both in any order.
    """
    kind, before = world.resource(request.kind), world.get(request)
    live = await world.client.get(kind, request.namespace, request.name)
    if live is None:
        if before:
            world.stores[kind].remove(before)
        return False
    new = entry(live, kind)
    world.stores[kind].put(new)
    return before is not None and before.meta.uid == new.meta.uid and new.meta.deletion_timestamp is None


async def comes_back(world: World, kind: Kind, meta: Meta) -> bool | None:
    """Return the result of `Plans.recreates` for an object that is being deleted, by resources that are still in the
    cluster. Raises Transient.
    """
    while isinstance(by := world.plans.recreator(kind, meta), Request):
        if await is_alive(world, by):
            return True
    return None if by is NoRecreator.UNKNOWN else False


async def orphan_pods(world: World, request: Request, kind: Kind, workload: Cached) -> None:
    """End the deletion of a workload that its owner makes again, and keep its pods: the next workload of that name
    adopts them. Raises Transient.
    """
    _log.warning(
        "was deleted, but its owner recreates it: its pods stay",
        kind=kind.kind,
        namespace=workload.meta.namespace,
        name=workload.meta.name,
    )
    # Kubernetes keeps it by a finalizer of its own until no object refers to it.
    await delete(world, kind, workload, "Orphan", by=request)
    if current := world.stores[kind].get(workload.meta.namespace, workload.meta.name):
        await drop(world, request, current, RECREATED, kind)


async def finish_deletion(world: World, request: Request, kind: Kind, workload: Cached) -> None:
    """End the deletion of a workload; Kubernetes deletes its pods, too. Raises Transient."""
    if is_deletion_pending(kind, workload):
        await drop(world, request, workload, RECREATED, kind)


async def finish_deletions(world: World, request: Request) -> bool:
    """End the deletion of all workloads of a resource that is gone or being deleted; their pods stay if both come back.
    Return True to look again in a second, while that is not known yet. Raises Transient.
    """
    unknown = False
    for kind, child in list(world.children(request)):
        if not is_deletion_pending(kind, child):
            continue
        returns = await comes_back(world, kind, child.meta)
        if returns is None and delay(world, child) < PATIENCE:
            unknown = True
        else:
            await (orphan_pods if returns else finish_deletion)(world, request, kind, child)
    return unknown


async def remove_stuck_finalizer(world: World, request: Request, kind: Kind, child: Cached) -> None:
    """Take off the finalizer of another operator whose object has been going for too long: that operator, or the server
    it needs, is gone. Nothing of the object has to be removed elsewhere (`Kind.finalizer`). Raises Transient.
    """
    if not kind.finalizer or kind.finalizer not in child.meta.finalizers:
        return
    now, key = steady(), (request.namespace, kind.operator)
    is_unresponsive = now - world.finalizer_removals.get(key, datetime.min.replace(tzinfo=UTC)) < _UNRESPONSIVE
    if delay(world, child) < (_SOON if is_unresponsive else PATIENCE):
        return
    world.finalizer_removals[key] = now
    _log.warning("let go for its operator", kind=kind.handle, namespace=request.namespace, name=child.meta.name)
    try:
        finalizers = [name for name in child.meta.finalizers if name != kind.finalizer]
        await _write(world, request, child, finalizers, kind)
    except Missing:
        return


async def orphan(world: World, request: Request, kind: Kind, child: Cached, uid: str) -> None:
    """Remove from an object the reference to an owner that goes, so that it stays and the next owner of that name takes
    it over. Raises Transient if it changed since it was read.
    """
    references = child.decode()["metadata"].get("ownerReferences") or []
    remaining = [reference for reference in references if reference["uid"] != uid]
    if len(remaining) == len(references) or child.meta.deletion_timestamp is not None:
        return
    operations: list[Object] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": child.meta.resource_version},
        {"op": "replace", "path": "/metadata/ownerReferences", "value": remaining},
    ]
    try:
        written = await world.client.patch_json(kind, child.meta.namespace, child.meta.name, operations)
    except Missing:
        return
    world.stores[kind].put(entry(written, kind), by=request)


def delay(world: World, item: Cached) -> timedelta:
    """Return how long finalizers have delayed the deletion of an object; zero for one that is not being deleted. Since
    clocks differ, and may be put back, it is at least the time for which this process knows of the deletion.
    """
    if not (since := item.meta.deletion_timestamp):
        return timedelta()
    now = steady()
    known_since = world.deletions.setdefault(item.meta.uid, now)
    return max(wall_time() - datetime.fromisoformat(since), now - known_since)


async def _write(
    world: World, request: Request, target: Cached, finalizers: list[str], child_kind: Kind | None = None
) -> Cached:
    """Write the finalizers of the resource, or of its child of `child_kind`. Raises Conflict if the object changed
    since it was read.
    """
    kind = child_kind or world.resource(request.kind)
    operations: list[Object] = [
        # Makes the write conditional on the version that was read, since the list has finalizers of other programs too.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": target.meta.resource_version},
        {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
    ]
    written = await world.client.patch_json(kind, target.meta.namespace, target.meta.name, operations)
    new = entry(written, kind)
    if new.meta.deletion_timestamp is not None and not finalizers:
        world.stores[kind].remove(new, by=request)
    else:
        world.stores[kind].put(new, by=request)
    return new
