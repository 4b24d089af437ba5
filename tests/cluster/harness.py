"""A namespace on a real API server, with operators and simulators to start over it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from openstack_operator import api
from openstack_operator.kube import conditions
from openstack_operator.plan import Transient
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Conflict
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.testing import Simulator

from . import toy

TIMEOUT = 300.0
"""Seconds after which a test is taken for hung. No test measures time: the machine may do many other things, too."""
DISCOVERY_PERIOD = 1.0
"""Seconds between two looks of an operator at the kinds that the API serves. The usual 20 are time in which a test
whose kind comes later does nothing.
"""
_ROUNDS = 100


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
        patience, release = (
            Patience(initial=0.2, later=0.2, retrying=0.5, missing=0.2),
            changes.pop("release", toy.RELEASE),
        )
        changes = {"patience": patience, **changes}
        manager = Manager(client, toy.SERVICES, actuators, lambda spec: release, [self.namespace], **changes)
        async with running(manager.run()):
            await manager.world.wait_until_synced()
            yield manager
        await client.close()

    @asynccontextmanager
    async def simulator(self, *skip: str) -> AsyncGenerator[None]:
        """Workloads are ready at once, except for the named kinds."""
        client = Client.connect()
        simulator = Simulator(client, self.namespace, lambda kind, name: kind in skip)
        async with running(simulator.run()):
            await simulator.wait_until_synced()
            yield
        await client.close()

    async def create(self, resource: api.Resource[Any], name: str, **spec: Any) -> dict[str, Any]:
        """A new resource. The API server compiles the rules of a kind when one is first written, and may take longer
        than the client waits for an answer.
        """
        kind, late = Kind.of(resource), False
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": self.meta(name), "spec": spec}
        async with asyncio.timeout(TIMEOUT):
            while True:
                try:
                    return await self.client.create(kind, body)
                except Conflict:
                    live = await self.client.get(kind, self.namespace, name) if late else None
                    if live is None:
                        raise
                    return live
                except Transient:
                    late = True

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

    async def ready(self, resource: api.Resource[Any], name: str, reason: str = "Ready") -> dict[str, Any]:
        """Waits for a Ready condition with that reason, which speaks of the present spec; returns it."""

        async def found() -> dict[str, Any] | None:
            live = await self.get(resource, name) or {}
            condition = conditions(live).get("Ready", {})
            current = condition.get("observedGeneration") == live.get("metadata", {}).get("generation")
            return condition if current and condition.get("reason") == reason else None

        return await eventually(found)


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


async def eventually(check: Callable[[], Awaitable[Any]]) -> Any:
    """The first true answer. An API server that does not answer in time is asked again: the machine may be busy.

    Each question takes the CPU that what is waited for needs, so they become fewer.
    """
    began = time.monotonic()
    async with asyncio.timeout(TIMEOUT):
        while True:
            with contextlib.suppress(Transient):
                if answer := await check():
                    return answer
            await asyncio.sleep(min(0.02 + (time.monotonic() - began) / 10, 0.2))


async def at_rest(manager: Manager) -> None:
    """Returns once an operator looked at everything three times in a row and wrote nothing.

    Fails where it goes on writing. What counts is what the operator did, not how long it took.
    """
    calm = 0
    for _ in range(_ROUNDS):
        # Watches tell of what was written last a moment later.
        await asyncio.sleep(0.1)
        calm = 0 if await look_again(manager) else calm + 1
        if calm == 3:
            return
    raise AssertionError(f"in {_ROUNDS} rounds it never stopped writing")


async def look_again(manager: Manager) -> int:
    """Has an operator look at everything; returns the number of writes that took."""
    before = manager.world.client.writes
    queues = list(dict.fromkeys(manager._queues.values()))  # pyright: ignore[reportPrivateUsage]
    for request in manager._wakeups.requests(manager.world.catalog.resources):  # pyright: ignore[reportPrivateUsage]
        manager._queues[request.kind].add(request)  # pyright: ignore[reportPrivateUsage]

    async def idle() -> bool:
        return not any(len(queue) or queue._working for queue in queues)  # pyright: ignore[reportPrivateUsage]

    await eventually(idle)
    return manager.world.client.writes - before
