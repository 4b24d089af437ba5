"""A namespace on a real API server, with operators and simulators to start over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from openstack_operator import api
from openstack_operator.kube import conditions
from openstack_operator.runtime.client import Client
from openstack_operator.runtime.kinds import Kind
from openstack_operator.runtime.manager import Manager
from openstack_operator.runtime.report import Patience
from openstack_operator.testing import Simulator

from . import toy

PATIENCE = 60.0
"""Seconds until what has to happen is called missing. It takes far less, and the machine may do other things too."""


@dataclass
class Cluster:
    """A namespace of its own, the API as a user has it, and operators over it."""

    client: Client
    namespace: str
    remote: toy.Remote = field(default_factory=toy.Remote)

    @asynccontextmanager
    async def operator(self, **changes: Any) -> AsyncGenerator[Manager]:
        """An operator that serves this namespace, synced."""
        client = Client.connect()
        actuators = toy.actuators(self.remote, changes.pop("interval", 60))
        patience = Patience(first=0.2, later=0.2, retrying=0.5)
        changes = {"patience": patience, **changes}
        manager = Manager(client, toy.SERVICES, actuators, lambda spec: toy.RELEASE, [self.namespace], **changes)
        async with running(manager.run()):
            await manager.world.synced()
            yield manager
        await client.close()

    @asynccontextmanager
    async def simulator(self, *skip: str) -> AsyncGenerator[None]:
        """Workloads are ready at once, except for the named kinds."""
        client = Client.connect()
        simulator = Simulator(client, self.namespace, lambda kind, name: kind in skip)
        async with running(simulator.run()):
            await simulator.synced()
            yield
        await client.close()

    async def create(self, resource: api.Resource[Any], name: str, **spec: Any) -> dict[str, Any]:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        return await self.client.create(Kind.of(resource), {**body, "metadata": self.meta(name)})

    def meta(self, name: str) -> dict[str, Any]:
        return {"name": name, "namespace": self.namespace}

    async def get(self, kind: Kind | api.Resource[Any], name: str) -> dict[str, Any] | None:
        return await self.client.get(kind if isinstance(kind, Kind) else Kind.of(kind), self.namespace, name)

    async def change(self, kind: Kind | api.Resource[Any], name: str, path: str, value: Any) -> dict[str, Any]:
        """Sets one field, as `kubectl patch` does."""
        kind = kind if isinstance(kind, Kind) else Kind.of(kind)
        return await self.client.patch_json(kind, self.namespace, name, [{"op": "add", "path": path, "value": value}])

    async def delete(self, kind: Kind | api.Resource[Any], name: str, policy: str = "Background") -> None:
        kind = kind if isinstance(kind, Kind) else Kind.of(kind)
        live = await self.client.get(kind, self.namespace, name)
        assert live
        await self.client.delete(kind, self.namespace, name, live["metadata"]["uid"], policy)

    async def condition(self, resource: api.Resource[Any], name: str, type_: str = "Ready") -> dict[str, Any]:
        return conditions(await self.get(resource, name) or {}).get(type_, {})

    async def ready(
        self, resource: api.Resource[Any], name: str, reason: str = "Ready", *, seconds: float = PATIENCE
    ) -> dict[str, Any]:
        """Waits for a Ready condition with that reason, which speaks of the present spec; returns it."""

        async def found() -> dict[str, Any] | None:
            live = await self.get(resource, name) or {}
            condition = conditions(live).get("Ready", {})
            current = condition.get("observedGeneration") == live.get("metadata", {}).get("generation")
            return condition if current and condition.get("reason") == reason else None

        return await eventually(found, seconds)


@asynccontextmanager
async def running(work: Any) -> AsyncGenerator[None]:
    """The work goes on inside the `with` block; what it fails with is raised after it."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if not task.cancelled() and (error := task.exception()):
        raise error


async def eventually(check: Callable[[], Awaitable[Any]], seconds: float = PATIENCE) -> Any:
    """The first true answer."""
    async with asyncio.timeout(seconds):
        while not (answer := await check()):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return answer
