"""Nothing that happens during a pass is lost: not where the resource goes, nor where an answer is the first to tell."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from openstack_operator.kube import MANAGED_BY, RECREATED
from openstack_operator.plan import Object
from openstack_operator.registry import SERVICES
from openstack_operator.runtime.cache.entries import Cached, Request, entry
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import STATEFUL_SET, Kind
from openstack_operator.runtime.reconcile.passes import Result
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.memcached.model import MEMCACHED
from tests.unit.polling import eventually

KIND = Kind.of(MEMCACHED)
REQUEST = Request(KIND.handle, "x", "cache")
META = {"namespace": "x", "uid": "uid-1", "resourceVersion": "1"}
OWNER = {"apiVersion": MEMCACHED.api_version, "kind": KIND.kind, "name": "cache", "uid": "uid-1", "controller": True}
CACHE_META = {**META, "name": "cache", "generation": 1}
CACHE = {"apiVersion": MEMCACHED.api_version, "kind": KIND.kind, "metadata": CACHE_META, "spec": {}}
SERVICES_OF_IT = [service for service in SERVICES if service.resource is MEMCACHED]
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [RECREATED], "ownerReferences": [OWNER]}
LABELS = {
    "app.kubernetes.io/managed-by": MANAGED_BY,
    "app.kubernetes.io/instance": "cache",
    "openstack.k8s.io/kind": "memcached",
}
WORKLOAD_META = {**META, **GOING, "name": "cache", "uid": "uid-2", "labels": LABELS}
WORKLOAD = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": WORKLOAD_META}


class Recording:
    """A client that takes every patch, and knows which finalizers it left."""

    def __init__(self) -> None:
        self.left: list[list[str]] = []

    async def patch_json(self, kind: Kind, namespace: str, name: str, operations: list[Object]) -> Object:
        assert (kind, namespace, name) == (STATEFUL_SET, "x", "cache")
        self.left.append(operations[-1]["value"])
        return {**WORKLOAD, "metadata": {**WORKLOAD_META, "finalizers": self.left[-1]}}


class Overtaken:
    """A pass during which somebody deletes the resource, and Kubernetes what belongs to it."""

    def __init__(self, manager: Manager) -> None:
        self._stores = manager.world.stores

    async def reconcile(self, request: Request, resource: Cached) -> Result:
        assert request == REQUEST
        self._stores[KIND].remove(resource)
        self._stores[STATEFUL_SET].put(entry(WORKLOAD, STATEFUL_SET))
        # The pass ends before what was told is due.
        return Result()

    async def note_plan(self, request: Request, resource: Cached) -> Result:
        raise NotImplementedError


async def test_a_workload_of_a_resource_that_goes_during_a_pass_goes_too() -> None:
    client = Recording()
    manager = Manager(cast("Client", client), SERVICES_OF_IT, [], cast("Any", None))
    manager._passes[KIND.handle] = Overtaken(manager)  # pyright: ignore[reportPrivateUsage]
    manager.world.stores[KIND].put(entry(CACHE, KIND))
    work = asyncio.ensure_future(manager._work())  # pyright: ignore[reportPrivateUsage]
    try:
        await eventually("the workload let go", lambda: client.left == [[]])
        assert manager.world.stores[STATEFUL_SET].get("x", "cache") is None
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


class Answered:
    """A pass whose own write is answered with what somebody else did before it."""

    def __init__(self, manager: Manager, answer: Object) -> None:
        self._store = manager.world.stores[KIND]
        self._answer = answer
        self.passes = 0

    async def reconcile(self, request: Request, resource: Cached) -> Result:
        self.passes += 1
        self._store.put(entry(self._answer, KIND), by=request)
        return Result()

    async def note_plan(self, request: Request, resource: Cached) -> Result:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("change", "passes"),
    [
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, 2),
        ({"generation": 2}, 2),
        ({"annotations": {"tempest.openstack.c5c3.io/run-now": "now"}}, 2),
        ({"labels": {"a": "b"}}, 1),
    ],
    ids=["deleted", "another spec", "another annotation", "nothing to do"],
)
async def test_a_change_first_seen_in_a_write_answer_is_reconciled(change: dict[str, Any], passes: int) -> None:
    manager = Manager(cast("Client", Recording()), SERVICES_OF_IT, [], cast("Any", None))
    answer = {**CACHE, "metadata": {**CACHE_META, **change, "resourceVersion": "2"}}
    manager._passes[KIND.handle] = answered = Answered(manager, answer)  # pyright: ignore[reportPrivateUsage]
    manager.world.stores[KIND].put(entry(CACHE, KIND))
    last = Request(KIND.handle, "x", "last")
    work = asyncio.ensure_future(manager._work())  # pyright: ignore[reportPrivateUsage]
    try:
        await eventually("the pass", lambda: answered.passes >= passes)
        # One that was woken at the same time would have had its pass by the time this one has its own.
        await asyncio.sleep(0)
        manager._wake(last)  # pyright: ignore[reportPrivateUsage]
        queue = manager._queues[KIND.handle]  # pyright: ignore[reportPrivateUsage]
        await eventually("the queue to be empty", lambda: not (len(queue) or queue._timers))  # pyright: ignore[reportPrivateUsage]
        assert answered.passes == passes
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
