"""An etcd that is put back to a snapshot while the operator runs: it follows what is so now, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.actuators.models import DATABASE
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, NAMESPACE, SECRET, Kind
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.placement.model import PLACEMENT

from .harness import Cluster, eventually
from .restorable_api_server import ApiServer, restorable_api_server
from .test_controlplane import SMALL, operator

_FUTURE = 200
"""Objects that are written and lost: the versions that a watch waits for in vain."""


@pytest.fixture
def server(tmp_path: Path, established: Path) -> Iterator[ApiServer]:
    with restorable_api_server(tmp_path, established) as server:
        yield server


@pytest.fixture
async def restored(server: ApiServer) -> AsyncIterator[Cluster]:
    client = Client.connect()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "restored", "namespace": None}}
    await client.create(NAMESPACE, namespace)
    yield Cluster(client, "restored")
    await client.close()


async def patiently(cluster: Cluster, kind: Any, name: str, path: str, value: Any) -> None:
    """A change as `cluster.change` makes it, of an API server that was started just now."""

    async def changed() -> bool:
        await cluster.change(kind, name, path, value)
        return True

    await eventually(changed)


async def test_the_operator_follows_a_cluster_that_was_put_back(server: ApiServer, restored: Cluster, root: Path):
    cluster = restored

    async def replicas(number: int) -> bool:
        live = await cluster.get(DEPLOYMENT, "placement-api") or {}
        return bool(live) and live["spec"]["replicas"] == number

    async def gone(kind: Any, name: str) -> bool:
        return await cluster.get(kind, name) is None

    async with operator(cluster, root) as manager:
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        password = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta("password")}
        await cluster.client.create(SECRET, {**password, "stringData": {"password": "longer-than-short"}})
        for name in ("old", "both"):
            await cluster.create(DATABASE, name, database=name, user=name, passwordSecretRef={"name": "password"})
            await cluster.ready(DATABASE, name)
        await asyncio.to_thread(server.save)
        # What is lost: a change that the operator followed, a resource that came, one that went, and much else.
        await patiently(cluster, CONTROL_PLANE, "cloud", "/spec/placement", {"replicas": 2})
        await eventually(lambda: replicas(2))
        await cluster.create(DATABASE, "new", database="new", user="new", passwordSecretRef={"name": "password"})
        await cluster.ready(DATABASE, "new")
        await cluster.delete(DATABASE, "old")
        await eventually(lambda: gone(DATABASE, "old"))
        for index in range(_FUTURE):
            secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta(f"lost-{index}")}
            await cluster.client.create(SECRET, secret)
        epoch = manager.world.client.history.epoch
        await asyncio.to_thread(server.put_back)
        # The change that was lost is undone, and a later one is followed.
        await patiently(cluster, CONTROL_PLANE, "cloud", "/spec/placement", {"replicas": 3})
        await eventually(lambda: replicas(3))
        assert manager.world.client.history.epoch > epoch
        await cluster.ready(PLACEMENT, "placement")
        await cluster.ready(CONTROL_PLANE, "cloud")
        # What came is gone, what went is back, and both go as they should.
        databases = manager.world.stores[Kind.of(DATABASE)]

        async def known() -> bool:
            return {each.meta.name for each in databases if each.meta.name in ("old", "both", "new")} == {"old", "both"}

        await eventually(known)
        for name in ("old", "both"):
            await cluster.ready(DATABASE, name)
            await cluster.delete(DATABASE, name)
            await eventually(lambda name=name: gone(DATABASE, name))
        assert manager.world.is_ready()
