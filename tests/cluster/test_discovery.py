"""Kinds of ours that are installed on request: nothing misses them, and they are served once they are there."""

from __future__ import annotations

from pathlib import Path

from openstack_operator import api
from openstack_operator.runtime.kubernetes.kinds import SECRET
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.secretaggregate.model import SECRET_AGGREGATE

from .harness import Cluster, eventually
from .test_controlplane import SMALL, operator
from .test_providers import without


async def test_a_kind_of_ours_that_comes_later(cluster: Cluster, root: Path) -> None:
    source = {"apiVersion": "v1", "kind": "Secret", "metadata": cluster.meta("source"), "stringData": {"key": "value"}}
    await cluster.client.create(SECRET, source)
    definition = f"{SECRET_AGGREGATE.plural}.{SECRET_AGGREGATE.group}"
    async with (
        without(cluster, definition, lambda: [api.crd(SECRET_AGGREGATE)]) as installed,
        operator(cluster, root),
    ):
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await installed()
        await cluster.create(SECRET_AGGREGATE, "target", sources=[{"secretRef": {"name": "source"}}])
        await cluster.ready(SECRET_AGGREGATE, "target")

        async def collected() -> bool:
            return ((await cluster.get(SECRET, "target") or {}).get("data") or {}).keys() == {"key"}

        await eventually(collected)
