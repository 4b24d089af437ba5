"""Lives of an operator over a cloud with simulated pods: each ends right after one of its writes."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from openstack_operator.kube import conditions
from openstack_operator.plan import Context
from openstack_operator.registry import ACTUATORS, EXTERNAL_KINDS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.cache.entries import Change
from openstack_operator.runtime.cache.informer import Informer
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Missing
from openstack_operator.runtime.kubernetes.kinds import NAMESPACE, SECRET, Catalog, Kind
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.testing import Simulator
from openstack_operator.yaml_text import load

from .crashing_client import crashing_client
from .harness import TIMEOUT, Cluster, at_rest, eventually, running

ROOT = Path(__file__).parent.parent.parent
NO_CRASH = 10**9
POINTS = os.environ.get("OPENSTACK_OPERATOR_CRASH_POINTS", "4")
"""How many crash points get a deployment of their own; `all` takes each of the minimal cloud."""
MINIMAL, HA = (ROOT / "deploy" / "samples" / f"controlplane_{name}.yaml" for name in ("minimal", "ha"))
WRITES_OF_LIVES = (1,) if POINTS == "all" else (1, 2, 3, 5, 8, 13)
"""Writes of one life after the other in a chain of lives. `make chaos` has the operator killed after every single one;
each life costs a list and a connection for each kind, and there are hundreds of writes."""

_DIGEST = re.compile(r"\b(?:[0-9a-f]{8}|[0-9a-f]{16})\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(:\d\dZ)?)?\b")
"""Of a certificate or a key: two clouds are not made in the same minute, nor always on the same day."""


def change_nothing(_: Context[Any]) -> tuple[str, ...]:
    """Nothing had to be changed."""
    return ()


@dataclass
class Cloud:
    """One deployment, and what was ever seen in its Secrets."""

    cluster: Cluster
    drawn: dict[tuple[str, str], set[str]] = field(default_factory=dict[tuple[str, str], set[str]])
    """Values by Secret and key."""
    writes: int = 0
    """Made by all lives together."""

    def seen(self, change: Change) -> None:
        if change.new:
            for key, value in (change.new.decode().get("data") or {}).items():
                self.drawn.setdefault((change.meta.name, key), set()).add(value)

    async def life(self, writes: int) -> bool:
        """One life of the operator; returns whether it saw the cloud ready and at rest before it died."""
        client, fate = crashing_client(writes)
        remotes = [replace(actuator, ensure=change_nothing, remove=change_nothing) for actuator in ACTUATORS]
        patience = Patience(initial=0.1, later=0.1, retrying=0.1, missing=0.1)
        releases = ReleaseFiles(ROOT / "releases")
        manager = Manager(client, SERVICES, remotes, releases, [self.cluster.namespace], patience=patience)
        async with running(manager.run()):
            died = asyncio.ensure_future(fate.dead.wait())
            rested = asyncio.ensure_future(self._rest(manager))
            async with asyncio.timeout(TIMEOUT):
                await asyncio.wait((died, rested), return_when=asyncio.FIRST_COMPLETED)
            for task in (died, rested):
                task.cancel()
            await asyncio.gather(died, rested, return_exceptions=True)
        await client.close()
        self.writes += len(fate.made)
        return not fate.dead.is_set()

    async def _rest(self, manager: Manager) -> None:
        while not await self.is_ready():  # noqa: ASYNC110  (most lives end earlier)
            await asyncio.sleep(0.2)
        await at_rest(manager)

    async def is_ready(self) -> bool:
        """Return True if there is nothing left to do but to come to rest."""
        plane = await self.cluster.get(CONTROL_PLANE, "cloud") or {}
        ready, generation = conditions(plane).get("Ready", {}), plane.get("metadata", {}).get("generation")
        return ready.get("status") == "True" and ready.get("observedGeneration") == generation

    async def objects(self) -> dict[str, Any]:
        """Everything in the namespace, by kind and name, without what differs from one deployment to the next."""
        found: dict[str, Any] = {}
        for kind in Catalog(RESOURCES, EXTERNAL_KINDS).all:
            # A busy API server is asked again.
            page = json.loads(await eventually(lambda kind=kind: self._page(kind)))
            for live in page["items"]:
                text = json.dumps(normalized(live)).replace(self.cluster.namespace, "NAMESPACE")
                normal = json.loads(_TIME.sub("TIME", _DIGEST.sub("DIGEST", text)))
                found[f"{kind.kind}/{normal['metadata']['name']}"] = normal
        return found

    async def _page(self, kind: Kind) -> bytes:
        try:
            return await self.cluster.client.page(kind, self.cluster.namespace, {})
        except Missing:
            # Kinds of others that are not there have no objects either.
            assert kind in EXTERNAL_KINDS
            return b'{"items": []}'

    async def is_removed(self) -> bool:
        """Return True once the namespace is on its way out; hundreds of clouds are too much for a small etcd."""
        namespace = self.cluster.namespace
        client = Client.connect()
        live = await client.get(NAMESPACE, None, namespace)
        if live and "deletionTimestamp" not in live["metadata"]:
            await client.delete(NAMESPACE, "", namespace, live["metadata"]["uid"], "Background")
        await client.close()
        return True


CloudT = TypeVar("CloudT", bound=Cloud)


def normalized(live: dict[str, Any]) -> dict[str, Any]:
    """The object without versions, times and addresses; of a Secret, which keys it has."""
    meta = live["metadata"]
    kept = {name: meta.get(name) for name in ("name", "labels", "finalizers")}
    owners = [{k: v for k, v in owner.items() if k != "uid"} for owner in meta.get("ownerReferences") or ()]
    # Digests of what has drawn passwords in it.
    kept["annotations"] = sorted(meta.get("annotations") or {})
    body = {"metadata": {**kept, "ownerReferences": owners}, "data": sorted(live.get("data") or {})}
    spec = json.loads(json.dumps(live.get("spec") or {}))
    for name in ("clusterIP", "clusterIPs", "ipFamilies"):
        spec.pop(name, None)
    template = spec.get("template", {}).get("metadata", {})
    template["annotations"] = sorted(template.get("annotations") or {})
    template.pop("creationTimestamp", None)
    for labeled in (template, spec.get("selector", {})):
        for labels in ("labels", "matchLabels"):
            for name in ("controller-uid", "batch.kubernetes.io/controller-uid"):
                (labeled.get(labels) or {}).pop(name, None)
    status = live.get("status") or {}
    told = {c["type"]: (c["status"], c["reason"], c.get("message")) for c in status.get("conditions") or ()}
    shown = {name: status.get(name) for name in ("phase", "endpoint", "published", "members", "release")}
    return {**body, "spec": spec, "status": {**shown, "conditions": told}}


def differences(found: Any, expected: Any, path: str = "") -> list[str]:
    """Where two clouds differ, a line each."""
    if isinstance(found, dict) and isinstance(expected, dict):
        names = sorted({*cast("dict[str, Any]", found), *cast("dict[str, Any]", expected)})
        lines = [differences(found.get(name), expected.get(name), f"{path}.{name}") for name in names]
        return [line for each in lines for line in each]
    return [] if found == expected else [f"{path}: {found} instead of {expected}"]


@asynccontextmanager
async def empty(
    cluster: Cluster, name: str, kind: type[CloudT], skip: Callable[[str, str], bool] = lambda kind, name: False
) -> AsyncGenerator[CloudT]:
    """A namespace of its own in which nothing is wanted yet; workloads finish at once, but for those to `skip`."""
    client = Client.connect()
    own = Cluster(client, f"{cluster.namespace}-{name}")
    meta = {"name": own.namespace, "namespace": None}
    await client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    found = kind(own)
    informer = Informer(client, Store(SECRET, found.seen), namespace=own.namespace)
    simulator = Simulator(client, own.namespace, skip)
    async with running(informer.run()), running(simulator.run()):
        await simulator.wait_until_synced()
        yield found
    await client.close()


@asynccontextmanager
async def cloud(cluster: Cluster, name: str, sample: Path) -> AsyncGenerator[Cloud]:
    """A cloud of that sample in a namespace of its own, wanted but not begun."""
    async with empty(cluster, name, Cloud) as found:
        [plane] = [doc for doc in load(sample) if doc["kind"] == CONTROL_PLANE.kind]
        await found.cluster.create(CONTROL_PLANE, "cloud", **plane["spec"])
        yield found


async def crash_repeatedly(chain: Cloud, calm_writes: int) -> int:
    """Let lives follow each other, each with some more writes, that end before the answer to the last one, until one
    lasts. Return their number.
    """
    lives = 1
    for writes in itertools.cycle(WRITES_OF_LIVES):
        if await chain.life(writes):
            break
        lives += 1
        assert lives < 5 * calm_writes, "it goes in circles"
    return lives


def crash_points(writes: int, most: int = NO_CRASH) -> list[int]:
    """Return the writes after which a deployment of its own ends: spread evenly, or each, but not more than `most`."""
    count = min(writes, most) if POINTS == "all" else int(POINTS)
    return [1 + index * writes // count for index in range(count)]


_undisturbed: dict[Path, tuple[int, dict[str, Any]]] = {}


async def deploy_without_crash(cluster: Cluster, sample: Path) -> tuple[int, dict[str, Any]]:
    """The writes that a deployment of the sample takes when nothing happens, and its objects; made once."""
    if sample not in _undisturbed:
        async with cloud(cluster, "calm", sample) as calm:
            assert await calm.life(NO_CRASH)
            _undisturbed[sample] = calm.writes, await calm.objects()
    return _undisturbed[sample]


def changed_secrets(found: Cloud) -> list[tuple[str, str]]:
    """Keys of Secrets that had more than one value. The record of a raft's first member goes on to say `formed`, and
    Neutron's agent is told how Nova serves metadata, which comes later.
    """
    agent = ("neutron-metadata-agent-config", "neutron.conf")
    return [what for what, values in found.drawn.items() if len(values) > 1 and what[1] != "seed" and what != agent]
