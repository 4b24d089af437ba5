"""The pods that a plan ends, so that their workload makes them again from its newest template."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...plan import Object, Step
from ..cache.entries import Request
from ..cache.trimmed_pods import trimmed
from ..cache.world import World
from ..kubernetes.errors import Conflict, Forbidden
from ..kubernetes.kinds import POD
from ..process import gather_errors
from .apply import Applier


class PodDeleter:
    """A writer of steps that also ends their pods, during one pass over one resource."""

    def __init__(self, world: World, request: Request, applier: Applier) -> None:
        self._world, self._request, self._applier = world, request, applier

    async def apply(self, step: Step) -> Sequence[Object]:
        """Write the objects of a step and return them as they are now; then end its pods. Raises as `Applier.apply`."""
        written = await self._applier.apply(step)
        try:
            await gather_errors(self._end(pod) for pod in step.ends)
        except Forbidden:
            self._applier.is_forbidden = True
            raise
        return written

    async def _end(self, pod: Object) -> None:
        """Delete exactly that pod. One that is gone, or ends already, is no error: the next plan sees what is there."""
        metadata, store = pod["metadata"], self._world.pods
        cached = store.get(self._request.namespace, metadata["name"])
        if cached is None or cached.meta.uid != metadata["uid"] or cached.meta.deletion_timestamp is not None:
            return
        meta = cached.meta
        try:
            remainder = await self._world.client.delete(POD, meta.namespace, meta.name, meta.uid, "Background")
        except Conflict:
            return
        self._applier.changes.append(f"{POD.kind}/{meta.name} ended")
        if remainder is None:
            store.remove(cached, by=self._request)
        else:
            store.put(trimmed(msgspec.json.encode(remainder), POD), by=self._request)
