"""A real kube-apiserver with etcd, a simulated rest of Kubernetes, and a user who applies clouds and waits."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openstack_operator.api import crd
from openstack_operator.kube import conditions
from openstack_operator.plan import Transient
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.cache.entries import Change
from openstack_operator.runtime.cache.informer import Informer
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import NAMESPACE, Kind
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.testing import Simulator
from openstack_operator.yaml_text import load
from tools.localcluster import apiserver

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "deploy" / "samples" / "controlplane_minimal.yaml"
_CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
_PATIENCE = 300
_NEW = 2.5
"""Seconds for which a kind counts as new: the API server delays each create of one that is younger than 2 seconds."""


@dataclass
class Stage:
    """A cluster and its user."""

    client: Client
    kubeconfig: Path
    directory: Path
    _ready: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])

    async def namespaces(self, names: Iterable[str]) -> None:
        """Create these namespaces."""
        for name in names:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": None}}
            await self.client.create(NAMESPACE, body)

    async def clouds(self, names: Iterable[str]) -> None:
        """Apply the minimal control plane to each of these namespaces, and wait until all are Ready."""
        (sample,) = [document for document in load(SAMPLE) if document["kind"] == CONTROL_PLANE.kind]
        kind = Kind.of(CONTROL_PLANE)
        events = [self._ready.setdefault(name, asyncio.Event()) for name in names]
        async with asyncio.timeout(_PATIENCE):
            for name in names:
                await self.client.create(kind, {**sample, "metadata": {**sample["metadata"], "namespace": name}})
            await asyncio.gather(*(event.wait() for event in events))

    def changed(self, change: Change) -> None:
        """Record control planes that became Ready."""
        live = change.new.decode() if change.new else {}
        if conditions(live).get("Ready", {}).get("status") == "True":
            self._ready.setdefault(change.meta.namespace, asyncio.Event()).set()


@asynccontextmanager
async def stage() -> AsyncGenerator[Stage]:
    """Yield a fresh cluster with the operator's kinds, whose workloads are ready as soon as they exist."""
    with tempfile.TemporaryDirectory() as directory, apiserver.api_server(directory) as kubeconfig:
        os.environ["KUBECONFIG"] = str(kubeconfig)
        client = Client.connect()
        cluster = Stage(client, kubeconfig, Path(directory))
        # Not all at once: a machine that does other things lets the API server answer too late.
        for at in range(0, len(RESOURCES), 4):
            await asyncio.gather(*(_install(client, crd(resource)) for resource in RESOURCES[at : at + 4]))
        await asyncio.sleep(_NEW)
        simulator = Simulator(client)
        watcher = Informer(client, Store(Kind.of(CONTROL_PLANE), cluster.changed))
        tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(part.run()) for part in (simulator, watcher)]
        try:
            await asyncio.gather(simulator.wait_until_synced(), watcher.synced.wait())
            yield cluster
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)
            await client.close()


async def _install(client: Client, definition: dict[str, Any]) -> None:
    definition["metadata"]["namespace"] = None
    name, established = definition["metadata"]["name"], False
    async with asyncio.timeout(_PATIENCE):
        while not established:
            # A machine that does other things has the API server answer too late.
            with suppress(Transient):
                live = await client.get(_CRD, None, name) or await client.create(_CRD, definition)
                established = "Established" in conditions(live)
            await asyncio.sleep(0.05)
