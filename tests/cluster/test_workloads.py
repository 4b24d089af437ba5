"""A workload that somebody deletes comes back to its pods; one that is to go takes them with it."""

from __future__ import annotations

from typing import Any

import pytest

from openstack_operator.runtime.cache.entries import Cached
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.kinds import DAEMON_SET, DEPLOYMENT, EVENT, STATEFUL_SET, Kind

from . import toy
from .harness import Cluster, eventually
from .test_controlplane import listed

CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
"""Stands for a ReplicaSet or a pod: Kubernetes collects what belongs to a workload, whatever it is."""
WORKLOADS = ((STATEFUL_SET, "server-db"), (DEPLOYMENT, "app-api"), (DAEMON_SET, "app-agent"))


async def uid(cluster: Cluster, kind: Kind, name: str) -> str:
    live = await cluster.get(kind, name)
    return live["metadata"]["uid"] if live else ""


async def has_dependent(cluster: Cluster, kind: Kind, name: str) -> None:
    """Something belongs to the workload from now on, and is called like it."""
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": await uid(cluster, kind, name)}
    meta = {**cluster.meta(name), "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}]}
    await cluster.client.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})


async def has_server(cluster: Cluster) -> None:
    """A server runs."""
    await cluster.create(toy.SERVER, "server")
    await cluster.ready(toy.SERVER, "server")


async def came_back(cluster: Cluster, kind: Kind, name: str, before: str) -> None:
    async def found() -> bool:
        return await uid(cluster, kind, name) not in ("", before)

    await eventually(found)
    dependent = await cluster.get(CONFIG_MAP, name)
    assert dependent, "what belonged to it was collected"
    assert not dependent["metadata"].get("ownerReferences"), "the next one could not take it over"


async def gone(cluster: Cluster, *what: tuple[Kind, str]) -> None:
    async def found() -> bool:
        return not any([await cluster.get(kind, name) for kind, name in what])

    await eventually(found)


@pytest.mark.parametrize(("kind", "name"), WORKLOADS)
async def test_a_deleted_workload_returns_with_its_dependents(cluster: Cluster, kind: Kind, name: str):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        await has_dependent(cluster, kind, name)
        for _ in range(2):
            before = await uid(cluster, kind, name)
            await cluster.delete(kind, name)
            await came_back(cluster, kind, name, before)
            await cluster.ready(toy.STACK, "stack")

        async def told() -> Any:
            return next((each for each in await listed(cluster, EVENT) if each["reason"] == "Recreated"), None)

        # It is sent beside the pass, and no more once the operator ends.
        event = await eventually(told)
    assert event["message"] == f"recreated {kind.kind}/{name}, which a user deleted"
    assert (event["type"], event["count"], event["lastTimestamp"]) == ("Normal", 1, event["firstTimestamp"])


async def test_a_workload_deleted_while_no_operator_runs_returns(cluster: Cluster):
    async with cluster.simulator():
        async with cluster.operator():
            await has_server(cluster)
        await has_dependent(cluster, STATEFUL_SET, "server-db")
        before = await uid(cluster, STATEFUL_SET, "server-db")
        await cluster.delete(STATEFUL_SET, "server-db")
        async with cluster.operator():
            await came_back(cluster, STATEFUL_SET, "server-db", before)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_a_workload_of_a_deleted_resource_goes_with_its_dependents(cluster: Cluster, policy: str):
    async with cluster.simulator(), cluster.operator():
        await has_server(cluster)
        await has_dependent(cluster, STATEFUL_SET, "server-db")
        await cluster.delete(toy.SERVER, "server", policy)
        await gone(cluster, (Kind.of(toy.SERVER), "server"), (STATEFUL_SET, "server-db"), (CONFIG_MAP, "server-db"))


class Deaf:
    """A store as its informer sees it, which is never told that something is changed or gone."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, new: Cached) -> None:
        pass

    def remove(self, last: Cached) -> None:
        pass


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_a_workload_goes_even_if_the_deletion_of_its_owner_was_missed(cluster: Cluster, policy: str):
    async with cluster.simulator(), cluster.operator() as manager:
        await has_server(cluster)
        await has_dependent(cluster, STATEFUL_SET, "server-db")
        [informer] = [each for each in manager.world.informers if each.store.kind == Kind.of(toy.SERVER)]
        late: Any = Deaf(informer.store)
        informer.store = late
        await cluster.delete(toy.SERVER, "server", policy)
        await gone(cluster, (Kind.of(toy.SERVER), "server"), (STATEFUL_SET, "server-db"), (CONFIG_MAP, "server-db"))


async def test_a_workload_of_a_resource_deleted_without_an_operator_goes_later(cluster: Cluster):
    async with cluster.simulator():
        async with cluster.operator():
            await has_server(cluster)
        await has_dependent(cluster, STATEFUL_SET, "server-db")
        await cluster.delete(toy.SERVER, "server")

        async def collected() -> bool:
            live = await cluster.get(STATEFUL_SET, "server-db")
            return live is not None and "deletionTimestamp" in live["metadata"]

        await eventually(collected)
        async with cluster.operator():
            await gone(cluster, (STATEFUL_SET, "server-db"), (CONFIG_MAP, "server-db"))


async def test_an_orphaned_workload_can_be_deleted(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await has_server(cluster)
        await has_dependent(cluster, STATEFUL_SET, "server-db")
        await cluster.delete(toy.SERVER, "server", "Orphan")
        await gone(cluster, (Kind.of(toy.SERVER), "server"))
        assert await cluster.get(CONFIG_MAP, "server-db")
        await cluster.delete(STATEFUL_SET, "server-db")
        await gone(cluster, (STATEFUL_SET, "server-db"), (CONFIG_MAP, "server-db"))


async def test_an_unwanted_workload_goes_with_its_dependents(cluster: Cluster):
    async with cluster.simulator():
        async with cluster.operator():
            await has_server(cluster)
        # As an earlier version of the operator had it.
        live = await cluster.get(STATEFUL_SET, "server-db")
        assert live
        kept = {name: live["metadata"][name] for name in ("labels", "ownerReferences", "finalizers")}
        metadata = {**kept, **cluster.meta("server-old")}
        body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": live["spec"]}
        await cluster.client.create(STATEFUL_SET, body)
        await has_dependent(cluster, STATEFUL_SET, "server-old")
        async with cluster.operator():
            await gone(cluster, (STATEFUL_SET, "server-old"), (CONFIG_MAP, "server-old"))
            assert await cluster.get(STATEFUL_SET, "server-db")
