"""Finalizers: what keeps a resource until the operator has cleaned up behind it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog

from ..plan import Object
from .client import Missing
from .kinds import Kind
from .store import Cached, Request
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


async def drop(world: World, request: Request, held: Cached, finalizer: str) -> None:
    """Lets the resource go; no error where it is gone. Raises Transient."""
    if finalizer not in held.meta.finalizers:
        return
    try:
        await _write(world, request, held, [name for name in held.meta.finalizers if name != finalizer])
    except Missing:
        return


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
