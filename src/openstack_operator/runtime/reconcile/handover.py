"""Objects that a plan creates once for their later owner: a restore, for the cloud that it makes again."""

from __future__ import annotations

from ...kube import HANDED_OVER, annotated
from ...plan import Object, SpecError
from ..cache.entries import Request
from ..cache.world import World
from ..kubernetes.kinds import Kind
from .compare import covers


def is_handed_over(desired: Object) -> bool:
    """Return True for an object that is created once for its later owner."""
    return HANDED_OVER in (desired["metadata"].get("annotations") or {})


async def hand_over(world: World, request: Request, kind: Kind, desired: Object, owner_uid: str) -> Object:
    """Create the object unless it exists, and return it as it is. It is annotated with the uid of the resource whose
    plan has it; by that it is recognized once its owner has changed it. Raises SpecError if another object has its
    name, Transient if the API server does not answer.
    """
    name = desired["metadata"]["name"]
    marked = annotated(desired, {HANDED_OVER: owner_uid})
    body = {**marked, "metadata": {**marked["metadata"], "namespace": request.namespace}}
    cached = world.stores[kind].get(request.namespace, name)
    # The stores have no Secret of a user.
    live = cached.decode() if cached else await world.client.get(kind, request.namespace, name)
    if live is None:
        return await world.client.create(kind, body)
    content = {field: value for field, value in body.items() if field != "metadata"}
    if not (_is_marked(live, owner_uid) or covers(content, live)):
        text = "exists already, and is not what the backup holds; restore into a namespace without a cloud"
        raise SpecError(f"{kind.kind}/{name}", text)
    return live


def _is_marked(live: Object, owner_uid: str) -> bool:
    return (live["metadata"].get("annotations") or {}).get(HANDED_OVER) == owner_uid
