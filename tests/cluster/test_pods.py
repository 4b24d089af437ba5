"""Pods of members: seen by their owner, labeled by its plan, left to Kubernetes in everything else."""

from __future__ import annotations

from typing import Any

from openstack_operator import kube
from openstack_operator.runtime.kubernetes.kinds import POD, Kind

from . import toy
from .harness import Cluster, eventually

ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")


def labels(kind: str = "server", *, watched: bool = True) -> dict[str, str]:
    own = {"app.kubernetes.io/managed-by": kube.MANAGED_BY, kube.KIND: kind, kube.INSTANCE: kind}
    return own | ({kube.WATCHED: "true"} if watched else {})


async def made(cluster: Cluster, name: str, *, ready: bool = True, watched: bool = True) -> dict[str, Any]:
    """A pod as its StatefulSet makes it and its kubelet runs it."""
    if await cluster.get(ACCOUNT, "default") is None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
        await cluster.client.create(ACCOUNT, account)
    meta = {**cluster.meta(name), "labels": labels(watched=watched), "annotations": {"mine": "yes"}}
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False}
    live = await cluster.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    await become(cluster, name, ready=ready)
    return live


async def become(cluster: Cluster, name: str, *, ready: bool) -> None:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    await cluster.client.merge_status(POD, cluster.namespace, name, {"phase": "Running", "conditions": [condition]})


async def roles(cluster: Cluster, *names: str) -> list[str]:
    found = [await cluster.get(POD, name) for name in names]
    return [live["metadata"]["labels"].get("role", "") if live else "gone" for live in found]


async def test_the_label_moves_with_readiness_and_nothing_else_is_touched(cluster: Cluster):
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.create(toy.SERVER, "server")
        for name in ("server-db-0", "server-db-1"):
            await made(cluster, name)

        async def first() -> bool:
            return await roles(cluster, "server-db-0", "server-db-1") == ["primary", ""]

        await eventually(first)
        await become(cluster, "server-db-0", ready=False)

        async def moved() -> bool:
            return await roles(cluster, "server-db-0", "server-db-1") == ["", "primary"]

        await eventually(moved)
        live = await cluster.get(POD, "server-db-1")
        assert live
        assert live["metadata"]["annotations"]["mine"] == "yes"
        assert "ownerReferences" not in live["metadata"]

        async def told() -> bool:
            status = ((await cluster.get(toy.SERVER, "server")) or {}).get("status", {})
            return status.get("members") == [
                {"name": "server-db-0", "state": "down"},
                {"name": "server-db-1", "role": "primary", "state": "serving"},
            ]

        await eventually(told)
        writes = manager.world.client.writes
        # The kubelet tells of what no plan looks at.
        await cluster.client.merge_status(POD, cluster.namespace, "server-db-0", {"hostIP": "192.0.2.1"})
        await eventually(lambda: _holds(manager, 2))
        assert manager.world.client.writes == writes


async def _holds(manager: Any, count: int) -> bool:
    return len(manager.world.pods) == count


async def test_a_pod_that_is_gone_is_neither_made_nor_an_error(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        old = await made(cluster, "server-db-0")
        await eventually(lambda: _is_primary(cluster))
        await cluster.client.delete(POD, cluster.namespace, "server-db-0", old["metadata"]["uid"], "Background")
        await cluster.ready(toy.SERVER, "server")
        new = await made(cluster, "server-db-0")
        await eventually(lambda: _is_primary(cluster))
        await cluster.client.delete(POD, cluster.namespace, "server-db-0", new["metadata"]["uid"], "Background")

        async def forgotten() -> bool:
            return "members" not in ((await cluster.get(toy.SERVER, "server")) or {})["status"]

        await eventually(forgotten)
        assert await cluster.get(POD, "server-db-0") is None
        await cluster.ready(toy.SERVER, "server")


async def _is_primary(cluster: Cluster) -> bool:
    return await roles(cluster, "server-db-0") == ["primary"]


async def test_plans_see_no_other_pods(cluster: Cluster):
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.create(toy.SERVER, "server")
        await made(cluster, "server-db-0", watched=False)
        await made(cluster, "server-db-1")
        await eventually(lambda: _holds(manager, 2))
        await eventually(lambda: _primary_is(cluster, "server-db-1"))
        assert await roles(cluster, "server-db-0") == [""]


async def _primary_is(cluster: Cluster, name: str) -> bool:
    return await roles(cluster, name) == ["primary"]
