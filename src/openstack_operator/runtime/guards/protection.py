"""Volume claims that Kubernetes makes for StatefulSets of ours, marked so that no other program prunes them."""

from __future__ import annotations

import structlog

from ...kube import PROTECTED
from ...plan import SpecError, Transient
from ..cache.entries import Cached, Request
from ..cache.world import World
from ..kubernetes.kinds import VOLUME_CLAIM

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_MANAGER = "openstack-operator-protection"
"""Of its own, so that a claim which grows, and is applied then, does not lose the marks."""


async def protect_volume_claims(world: World, request: Request) -> None:
    """Annotate the members' claims of a resource. They have no owner, its labels, and its data. The claims of a
    StatefulSet that exists cannot be given annotations through it. What fails is tried again in the next pass.
    """
    role, namespace, name = world.target(request)
    for claim in world.volumes.owned(namespace, role, name):
        if claim.meta.deletion_timestamp is None and not claim.meta.annotations.items() >= PROTECTED.items():
            await _protect(world, claim)


async def _protect(world: World, claim: Cached) -> None:
    try:
        await world.client.annotate(VOLUME_CLAIM, claim.decode(), PROTECTED, manager=_MANAGER)
    except (Transient, SpecError) as error:
        # The service is no worse for it.
        where = {"namespace": claim.meta.namespace, "name": claim.meta.name}
        _log.warning("cannot protect a volume claim from pruning", error=str(error), **where)
