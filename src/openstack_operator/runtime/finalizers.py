"""Deletion, and finalizers: what keeps an object until the operator has seen to what is behind it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog

from ..kube import RECREATED
from ..plan import Object
from ..plan.steps import WORKLOADS
from .client import Conflict, Missing
from .kinds import Kind
from .store import Cached, Meta, Request
from .world import World, entry

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

PATIENCE = timedelta(seconds=20)
"""For so long another operator may see to what it has out there."""
_DEAF = timedelta(minutes=5)
"""For so long an operator that did not is given less time for the rest; a cloud would go one patience after another."""
_SOON = timedelta(seconds=2)


async def add(world: World, request: Request, held: Cached, finalizer: str) -> Cached:
    """The resource with the finalizer; no write where it has it. Raises Transient."""
    if finalizer in held.meta.finalizers:
        return held
    return await _write(world, request, held, [*held.meta.finalizers, finalizer])


async def drop(world: World, request: Request, held: Cached, finalizer: str, kind: Kind | None = None) -> None:
    """Lets the resource go, or what it made of another `kind`; no error where it is gone. Raises Transient."""
    if finalizer not in held.meta.finalizers:
        return
    try:
        await _write(world, request, held, [name for name in held.meta.finalizers if name != finalizer], kind)
    except Missing:
        return


async def delete(world: World, kind: Kind, held: Cached, policy: str, *, by: Request) -> None:
    """Deletes exactly that object; what finalizers leave of it stays known as being deleted. Raises Transient."""
    store = world.stores[kind]
    try:
        left = await world.client.delete(kind, held.meta.namespace, held.meta.name, held.meta.uid, policy)
    except Conflict:
        # Another object bears the name by now; the watch will tell of it.
        return
    if left is None:
        store.remove(held, by=by)
    else:
        store.put(entry(left, kind), by=by)


def is_deletion_pending(kind: Kind, held: Cached) -> bool:
    """Whether a workload is being deleted, and our finalizer still keeps it."""
    return kind.kind in WORKLOADS and held.meta.deletion_timestamp is not None and RECREATED in held.meta.finalizers


async def is_there(world: World, request: Request) -> bool:
    """Whether a resource that is known is in the cluster, the same one, and is not being deleted. Raises Transient.

    When a resource goes, Kubernetes deletes what belongs to it, and the watches tell of both in any order.
    """
    kind, known = world.resource(request.kind), world.held(request)
    live = await world.client.get(kind, request.namespace, request.name)
    if live is None:
        if known:
            world.stores[kind].remove(known)
        return False
    new = entry(live, kind)
    world.stores[kind].put(new)
    return known is not None and known.meta.uid == new.meta.uid and new.meta.deletion_timestamp is None


async def comes_back(world: World, kind: Kind, meta: Meta) -> bool | None:
    """Whether an object that is being deleted comes back, as `Plans.recreates` has it, by a resource that is in the
    cluster still. Raises Transient.
    """
    while by := world.plans.recreator(kind, meta):
        if await is_there(world, by):
            return True
    return by


async def orphan_pods(world: World, request: Request, kind: Kind, held: Cached) -> None:
    """Ends the deletion of a workload that its owner makes again, and keeps its pods: the next workload of that name
    adopts them. Raises Transient.
    """
    _log.warning(
        "was deleted, but its owner makes it again: its pods stay",
        kind=kind.kind,
        namespace=held.meta.namespace,
        name=held.meta.name,
    )
    # Kubernetes keeps it by a finalizer of its own until nothing refers to it any more.
    await delete(world, kind, held, "Orphan", by=request)
    if current := world.stores[kind].get(held.meta.namespace, held.meta.name):
        await drop(world, request, current, RECREATED, kind)


async def finish_deletion(world: World, request: Request, kind: Kind, held: Cached) -> None:
    """Ends the deletion of a workload; Kubernetes deletes its pods, too. Raises Transient."""
    if is_deletion_pending(kind, held):
        await drop(world, request, held, RECREATED, kind)


async def finish_deletions(world: World, request: Request) -> bool:
    """Ends the deletion of all workloads of a resource that is gone or goes; their pods stay where both come back.
    Returns whether to look again in a second, since that is not known yet. Raises Transient.
    """
    unknown = False
    for kind, child in list(world.children(request)):
        if not is_deletion_pending(kind, child):
            continue
        returns = await comes_back(world, kind, child.meta)
        if returns is None and going(child) < PATIENCE:
            unknown = True
        else:
            await (orphan_pods if returns else finish_deletion)(world, request, kind, child)
    return unknown


async def release(world: World, request: Request, kind: Kind, held: Cached) -> None:
    """Lets an object of another operator go that has been going for too long: what that operator would have to ask is
    not there any more, or that operator is not. Nothing of it is to go out there (`Kind.finalizer`). Raises Transient.
    """
    if not kind.finalizer or kind.finalizer not in held.meta.finalizers:
        return
    now, whose = datetime.now(UTC), (request.namespace, kind.by)
    deaf = now - world.released.get(whose, datetime.min.replace(tzinfo=UTC)) < _DEAF
    if going(held) < (_SOON if deaf else PATIENCE):
        return
    world.released[whose] = now
    _log.warning("let go for its operator", kind=kind.handle, namespace=request.namespace, name=held.meta.name)
    try:
        left = [name for name in held.meta.finalizers if name != kind.finalizer]
        await _write(world, request, held, left, kind)
    except Missing:
        return


async def orphan(world: World, request: Request, kind: Kind, child: Cached, uid: str) -> None:
    """Takes from an object the reference to an owner that goes, so that it stays and the next owner of that name takes
    it over. Raises Transient where somebody changed it since it was read.
    """
    references = child.decode()["metadata"].get("ownerReferences") or []
    left = [reference for reference in references if reference["uid"] != uid]
    if len(left) == len(references) or child.meta.deletion_timestamp is not None:
        return
    operations: list[Object] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": child.meta.resource_version},
        {"op": "replace", "path": "/metadata/ownerReferences", "value": left},
    ]
    try:
        written = await world.client.patch_json(kind, child.meta.namespace, child.meta.name, operations)
    except Missing:
        return
    world.stores[kind].put(entry(written, kind), by=request)


def going(held: Cached) -> timedelta:
    """Since when an object is being deleted; no time for one that is not."""
    at = held.meta.deletion_timestamp
    return datetime.now(UTC) - datetime.fromisoformat(at) if at else timedelta()


async def _write(
    world: World, request: Request, held: Cached, finalizers: list[str], other: Kind | None = None
) -> Cached:
    """Raises Conflict when somebody changed the object since it was read: the resource itself, or one of `other`
    kind.
    """
    kind = other or world.resource(request.kind)
    operations: list[Object] = [
        # Makes the write conditional on the version that was read, since the list holds finalizers of others too.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": held.meta.resource_version},
        {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
    ]
    written = await world.client.patch_json(kind, held.meta.namespace, held.meta.name, operations)
    new = entry(written, kind)
    if new.meta.deletion_timestamp is not None and not finalizers:
        world.stores[kind].remove(new, by=request)
    else:
        world.stores[kind].put(new, by=request)
    return new
