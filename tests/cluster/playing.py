"""Plays the operators of others, of which only the definitions are there: what is asked of them is there at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from openstack_operator.plan import Transient
from openstack_operator.runtime.client import Client, Conflict
from openstack_operator.runtime.kinds import OTHERS, SECRET, Kind

from .harness import Cluster, running

GROUPS = ("k8s.mariadb.com", "rabbitmq.com", "memcached.c5c3.io", "cache.cs.sap.com")
KINDS = {kind.handle: kind for kind in OTHERS if kind.group in GROUPS}
_CLUSTER = ("AllReplicasReady", "ClusterAvailable", "ReconcileSuccess")
_PERIOD = 0.1


@asynccontextmanager
async def played(cluster: Cluster, *skip: str) -> AsyncGenerator[None]:
    """Everything of their kinds becomes ready, but what has one of these handles."""
    client = Client.connect()
    async with running(_play(client, cluster.namespace, skip)):
        yield
    await client.close()


async def _play(client: Client, namespace: str, skip: tuple[str, ...]) -> None:
    while True:
        for kind in [kind for handle, kind in KINDS.items() if handle not in skip]:
            for live in json.loads(await client.page(kind, namespace, {}))["items"]:
                with suppress(Transient):
                    await _granted(client, kind, live)
        # There is nothing to wait for but time: whoever reads a list asks again.
        await asyncio.sleep(_PERIOD)


async def _granted(client: Client, kind: Kind, live: dict[str, Any]) -> None:
    name, namespace, generation = (live["metadata"][key] for key in ("name", "namespace", "generation"))
    status = live.get("status") or {}
    if status.get("conditions") and status.get("observedGeneration", generation) == generation:
        return
    if kind.kind == "RabbitmqCluster":
        login = {"username": "YWRtaW4=", "password": "YWRtaW4="}
        metadata = {"name": f"{name}-default-user", "namespace": namespace}
        with suppress(Conflict):
            await client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": login})
    await client.merge_status(kind, namespace, name, ready(kind, name, generation))


def ready(kind: Kind, name: str, generation: int) -> dict[str, Any]:
    """The status of what is as it should be."""
    types = _CLUSTER if kind.kind == "RabbitmqCluster" else ("Ready",)
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    words = {"status": "True", "reason": "Played", "message": "", "lastTransitionTime": at}
    silent = kind.group == "k8s.mariadb.com"
    return {
        "conditions": [{"type": type_, **words} for type_ in types],
        **({} if silent else {"observedGeneration": generation}),
        **({"state": "Ready"} if kind.group == "cache.cs.sap.com" else {}),
        **({"username": name} if kind.handle == "User.rabbitmq.com" else {}),
    }
