"""Deletes what a resource made, and what its plan no longer has."""

from __future__ import annotations

from collections.abc import Iterable

from ...kube import RETAIN, Rollout
from ...kube.pod_inputs import INPUT_KINDS, pod_inputs, pod_template
from ...plan import Key, Object, Plan, key
from ..cache.entries import Cached, Request
from ..cache.world import World
from ..kubernetes.kinds import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind
from ..process import gather_errors
from .finalizers import delete, finish_deletion

Child = tuple[Kind, Cached]
_ROLLED = (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)
_POD_MAKERS = {*(kind.kind for kind in _ROLLED), "CronJob", "Job"}
_RECHECK = 30.0
"""Seconds until the next look at an object that another resource needs: nothing reports the end of that."""


async def prune(
    world: World, request: Request, plan: Plan, children: Iterable[Child], changes: list[str]
) -> float | None:
    """Delete owned objects that the plan does not have, and add them to `changes`. Return the seconds after which to
    look again, if another resource still needs one. Raises Transient.

    What a pod needs to start stays as long as a workload of the plan, or of another resource, may start one that needs
    it. Else a pod that moves to another node while a roll-out is stuck would wait for a Secret that is gone. It stays,
    too, until all objects of its kind exist that the plan has, since one of them may replace it.
    """
    forbidden = world.forbidden_kinds(request.namespace)
    visible = [each for each in children if each[0] not in forbidden]
    keys = {key(obj) for obj in plan.objects}
    stale = [(kind, child) for kind, child in visible if _is_stale(kind, child, keys)]
    recheck = None
    if any(kind.kind in INPUT_KINDS for kind, _ in stale):
        own_uids = {child.meta.uid for _, child in visible}
        remaining = {(kind.kind, child.meta.name) for kind, child in stale}
        workloads = [each for each in visible if (each[0].handle, each[1].meta.name) in keys]
        needed = _needed_by_own(world, workloads, remaining)
        needed |= _without_replacement(world, request.namespace, plan, remaining)
        needed_elsewhere = _needed_by_others(world, request.namespace, own_uids) & (remaining - needed)
        recheck = _RECHECK if needed_elsewhere else None
        needed |= needed_elsewhere
        stale = [(kind, child) for kind, child in stale if (kind.kind, child.meta.name) not in needed]
    await gather_errors(_delete(world, request, kind, child, changes) for kind, child in stale)
    await gather_errors(
        finish_deletion(world, request, kind, child)
        for kind, child in visible
        if (kind.handle, child.meta.name) not in keys
    )
    return recheck


def _is_stale(kind: Kind, child: Cached, keys: set[Key]) -> bool:
    meta = child.meta
    is_kept = (meta.controller is None and meta.node is None) or meta.annotations.get(RETAIN) == "true"
    return not is_kept and meta.deletion_timestamp is None and (kind.handle, meta.name) not in keys


def _needed_by_own(world: World, workloads: Iterable[Child], stale: set[Key]) -> set[Key]:
    """Return those of the stale objects that pods of the resource may need: what templates name as they are now, before
    a step that waits for its turn; and while a workload is rolled out, what its older pods may name.
    """
    needed: set[Key] = set()
    for kind, child in workloads:
        live = (world.stores[kind].get(child.meta.namespace, child.meta.name) or child).decode()
        if kind in _ROLLED and Rollout(live).is_running:
            return {each for each in stale if each[0] in INPUT_KINDS}
        needed |= _inputs(live)
    return needed & stale


def _needed_by_others(world: World, namespace: str, own_uids: set[str]) -> set[Key]:
    """Return what templates of other resources' workloads name: programs mount certificates of the servers they use."""
    kinds = [kind for kind in world.stores if kind.kind in _POD_MAKERS]
    workloads = (each for kind in kinds for each in world.stores[kind].of_namespace(namespace))
    return {each for workload in workloads if workload.meta.uid not in own_uids for each in _inputs(workload.decode())}


def _inputs(workload: Object) -> frozenset[Key]:
    template = pod_template(workload)
    return pod_inputs(template) if template else frozenset()


def _without_replacement(world: World, namespace: str, plan: Plan, stale: set[Key]) -> set[Key]:
    """Return those of the stale objects of whose kind the plan has an object that does not exist."""
    kinds = {
        obj["kind"]
        for obj in plan.objects
        if obj["kind"] in INPUT_KINDS
        and world.stores[world.catalog.of(obj)].get(namespace, obj["metadata"]["name"]) is None
    }
    return {each for each in stale if each[0] in kinds}


async def _delete(world: World, request: Request, kind: Kind, child: Cached, changes: list[str]) -> None:
    await delete(world, kind, child, "Background", by=request)
    if remainder := world.stores[kind].get(child.meta.namespace, child.meta.name):
        await finish_deletion(world, request, kind, remainder)
    world.stores[kind].give_up(child)
    changes.append(f"{kind.kind}/{child.meta.name} deleted")
