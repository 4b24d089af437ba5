"""A namespace that holds too much: whose objects are not kept is told so, and nothing is planned without them."""

from __future__ import annotations

import pytest

from openstack_operator.kube import INSTANCE, KIND, MANAGED_BY
from openstack_operator.runtime.kubernetes.kinds import CHILDREN

from . import toy
from .harness import Cluster, at_rest

CONFIG_MAP = next(kind for kind in CHILDREN if kind.kind == "ConfigMap")


@pytest.mark.security
async def test_forged_objects_without_end_stop_the_resource_they_name_alone(cluster: Cluster) -> None:
    async with cluster.simulator(), cluster.operator() as manager:
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        manager.world.budget.limit = 200 << 10
        names = [f"forged-{number}" for number in range(4)]
        labels = {"app.kubernetes.io/managed-by": MANAGED_BY, KIND: "server", INSTANCE: "server"}
        for name in names:
            meta = {**cluster.meta(name), "labels": labels}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "x" * (100 << 10)}}
            await cluster.client.create(CONFIG_MAP, body)
        await cluster.change(toy.SERVER, "server", "/spec/replicas", 2)
        condition = await cluster.ready(toy.SERVER, "server", "Retrying")
        # Which other kinds are named beside them depends on which of their lists came first.
        assert "the configmaps" in condition["message"]
        assert "of this namespace with the operator's labels exceed" in condition["message"]
        assert sum(len(held.raw) for held in manager.world.stores[CONFIG_MAP]) <= 200 << 10
        await cluster.create(toy.SERVER, "other")
        await cluster.ready(toy.SERVER, "other")
        for name in names:
            await cluster.delete(CONFIG_MAP, name)
        for informer in manager.world.informers:
            # It is listed again once a minute at most.
            informer._listed = 0.0  # pyright: ignore[reportPrivateUsage]
        await cluster.ready(toy.SERVER, "server")
        await at_rest(manager)
