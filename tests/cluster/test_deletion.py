"""Deletion: in order, with what is outside cleaned up, and never with a hang."""

from __future__ import annotations

import asyncio

import pytest

from openstack_operator.runtime.kubernetes.kinds import NAMESPACE, STATEFUL_SET, VOLUME_CLAIM

from . import toy
from .harness import Cluster, eventually


async def gone(cluster: Cluster, *names: tuple[object, str]) -> None:
    async def check() -> bool:
        return all([await cluster.get(kind, name) is None for kind, name in names])  # type: ignore[arg-type]

    await eventually(check)


async def test_a_teardown_goes_in_reverse_and_says_what_it_waits_for(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        # A finalizer of somebody else holds the app, and with it everything that comes before it.
        await cluster.change(toy.APP, "app", "/metadata/finalizers", ["example.org/held"])
        await cluster.delete(toy.STACK, "stack")
        condition = await cluster.ready(toy.STACK, "stack", "Deleting")
        assert condition["message"] == "deleting: waiting for App/app"
        server = await cluster.get(toy.SERVER, "server")
        assert server and "deletionTimestamp" not in server["metadata"]
        await cluster.change(toy.APP, "app", "/metadata/finalizers", [])
        await gone(cluster, (toy.STACK, "stack"), (toy.SERVER, "server"), (STATEFUL_SET, "server-db"))
        assert await cluster.get(VOLUME_CLAIM, "server-data")


async def test_a_teardown_needs_no_remote_side(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        cluster.remote.down = True
        await cluster.delete(toy.STACK, "stack")
        await gone(cluster, (toy.STACK, "stack"), (toy.ACCOUNT, "account"), (toy.SERVER, "server"))


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.1, 0.2])
async def test_a_teardown_may_begin_at_any_moment(cluster: Cluster, moment: float):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await asyncio.sleep(moment)
        await cluster.delete(toy.STACK, "stack")
        await gone(cluster, (toy.STACK, "stack"), (toy.SERVER, "server"))


async def test_a_whole_namespace_can_be_deleted(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        cluster.remote.down = True
        live = await cluster.client.get(NAMESPACE, None, cluster.namespace)
        assert live
        await cluster.client._request("DELETE", NAMESPACE.path(None, cluster.namespace))  # pyright: ignore[reportPrivateUsage]
        await gone(cluster, (toy.STACK, "stack"), (toy.ACCOUNT, "account"), (toy.SERVER, "server"))


async def test_a_resource_that_cannot_be_planned_can_be_deleted(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        await cluster.change(toy.STACK, "stack", "/spec/options", {"unplannable": "yes"})
        await cluster.ready(toy.STACK, "stack", "InternalError")
        await cluster.delete(toy.STACK, "stack")
        await gone(cluster, (toy.STACK, "stack"), (toy.SERVER, "server"), (toy.APP, "app"))
