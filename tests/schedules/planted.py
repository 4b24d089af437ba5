"""Faults planted in an operator: a search that does not find them proves nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from openstack_operator.plan import Transient
from openstack_operator.runtime.cache.entries import Cached, Change, Request
from openstack_operator.runtime.kubernetes.errors import Conflict
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.reconcile.actuate import ActuatorReconciler
from openstack_operator.runtime.serve.manager import Manager


def write_without_lease(manager: Manager) -> None:
    """Write even if another replica leads."""
    manager.world.client.fence = lambda: None


def act_without_lease(manager: Manager) -> None:
    """Change what lies outside Kubernetes even if another replica leads."""
    for each in manager._passes.values():  # pyright: ignore[reportPrivateUsage]
        if isinstance(each, ActuatorReconciler):
            each._fenced = lambda change: change  # pyright: ignore[reportPrivateUsage]


def leave_threads(manager: Manager) -> None:
    """Release the lease while a thread goes on to change what lies outside Kubernetes."""
    fence = manager.world.client.fence
    for each in manager._passes.values():  # pyright: ignore[reportPrivateUsage]
        if isinstance(each, ActuatorReconciler):
            each._change = _unguarded(each, fence)  # pyright: ignore[reportPrivateUsage]


def _unguarded(reconciler: ActuatorReconciler, fence: Callable[[], None]) -> Any:
    async def change(work: Callable[[Any], Any], context: Any) -> Any:
        def begin(context: Any) -> Any:
            fence()
            return work(context)

        return await reconciler._in_thread(begin, context)  # pyright: ignore[reportPrivateUsage]

    return change


def take_every_cluster_for_new(manager: Manager) -> None:
    """Take a lease that is free or missing at once, though etcd may have been restored."""
    manager.world.is_new = lambda: True


def release_lease_early(manager: Manager) -> None:
    """Release the lease while writes are on their way."""

    async def end_at_once() -> None:
        return

    manager.world.client.sent_writes.end = end_at_once


def adopt_objects_of_others(manager: Manager) -> None:
    """Take everything with the labels of a resource for its own, and so delete what no plan has."""

    def children(request: Request, owner: Cached) -> list[tuple[Kind, Cached]]:
        del owner
        return list(manager.world.children(request))

    manager.engine.gatherer._children = children  # pyright: ignore[reportPrivateUsage]


def lose_deletions(manager: Manager) -> None:
    """Wake nobody when an object is gone."""
    after = manager._wakeups.after  # pyright: ignore[reportPrivateUsage]

    def after_others(change: Change) -> list[Request]:
        return [] if change.new is None else after(change)

    manager._wakeups.after = after_others  # pyright: ignore[reportPrivateUsage]


def give_up_status(manager: Manager) -> None:
    """Take a conflict on a status for the end of its resource."""
    apply_status = manager.world.client.apply_status

    async def apply_or_drop(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
        try:
            return await apply_status(kind, obj)
        except Conflict:
            live = await manager.world.client.get(kind, "x", obj["metadata"]["name"])
            if live is None:
                raise Transient("gone") from None
            return live

    manager.world.client.apply_status = apply_or_drop


def skip_lists(manager: Manager) -> None:
    """Go on from the present version where an old one has expired, without a list."""
    for informer in manager.world.informers:
        informer._list = _list_once(informer, informer._list)  # pyright: ignore[reportPrivateUsage]


def _list_once(informer: Any, list_all: Any) -> Any:
    async def list_or_skip() -> None:
        if not informer.synced.is_set():
            await list_all()
            return
        content = await informer._client.page(informer.store.kind, informer.namespace, {"limit": "1"})
        informer._version = content.partition(b'"resourceVersion":"')[2].partition(b'"')[0].decode()

    return list_or_skip


def believe_old_state(manager: Manager) -> None:
    """Notice no restore of etcd, and list nothing again."""
    manager.world.client.history.rewind = lambda evidence: None
    for informer in manager.world.informers:
        informer.trusted_seconds = math.inf


PLANTED = {
    write_without_lease: "freeze",
    act_without_lease: "freeze",
    leave_threads: "stop",
    take_every_cluster_for_new: "restore stop",
    release_lease_early: "stop",
    adopt_objects_of_others: "",
    lose_deletions: "delete",
    give_up_status: "conflicts",
    skip_lists: "compact",
    believe_old_state: "restore",
}
"""Each with the faults of the world without which it does no harm."""
