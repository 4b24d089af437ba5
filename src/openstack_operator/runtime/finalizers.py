"""Finalizers: what keeps a resource until the operator has cleaned up behind it."""

from __future__ import annotations

from ..plan import Object
from .client import Missing
from .store import Cached, Request
from .world import World, entry


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


async def _write(world: World, request: Request, held: Cached, finalizers: list[str]) -> Cached:
    """Raises Conflict when somebody changed the resource since it was read."""
    kind = world.resource(request.kind)
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
