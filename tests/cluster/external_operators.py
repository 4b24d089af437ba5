"""Plays the operators of others, of which only the definitions are there: what is asked of them is there at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from openstack_operator.plan import Transient
from openstack_operator.registry import EXTERNAL_KINDS
from openstack_operator.runtime.cache.entries import Change
from openstack_operator.runtime.cache.informer import Informer
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Conflict
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, SECRET, Kind

from .harness import Cluster, running

_KORC = "openstack.k-orc.cloud"
_SECRETS = "external-secrets.io"
GROUPS = ("k8s.mariadb.com", "rabbitmq.com", "memcached.c5c3.io", "cache.cs.sap.com", _KORC, _SECRETS)
KINDS = {kind.handle: kind for kind in EXTERNAL_KINDS if kind.group in GROUPS and not kind.superseded_by}
_CLUSTER = ("AllReplicasReady", "ClusterAvailable", "ReconcileSuccess")
_PERIOD = 1.0
"""Seconds until all is looked at again, if nothing changes."""


@asynccontextmanager
async def external_operators(cluster: Cluster, *skip: str) -> AsyncGenerator[set[str]]:
    """Everything of their kinds becomes ready, but what has one of these handles. What K-ORC was seen to need Keystone
    for when that was gone comes out, by handle and name.
    """
    client = Client.connect()
    stuck, store = set[str](), dict[str, str]()
    async with running(_play(client, cluster.namespace, skip, stuck, store)):
        yield stuck
    # Nobody else would let it go, nor its definition.
    for kind in [kind for kind in KINDS.values() if kind.finalizer]:
        for live in await _listed(client, kind, cluster.namespace):
            with suppress(Transient):
                await _finalized(client, kind, live["metadata"], [])
    await client.close()


async def _listed(client: Client, kind: Kind, namespace: str) -> list[dict[str, Any]]:
    """Objects of a kind; none where the API server cannot say: it answers 429 until the storage of a kind that nobody
    has asked for yet is initialized.
    """
    try:
        return json.loads(await client.page(kind, namespace, {}))["items"]
    except Transient:
        return []


async def _play(client: Client, namespace: str, skip: tuple[str, ...], stuck: set[str], store: dict[str, str]) -> None:
    kinds = [kind for handle, kind in KINDS.items() if handle not in skip]
    changed, woken = set[str](), asyncio.Event()

    def on_change(change: Change) -> None:
        changed.add(change.kind.group)
        woken.set()

    informers = [Informer(client, Store(kind, on_change), namespace=namespace, metadata_only=True) for kind in kinds]
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run())
        while True:
            # All kinds of a group, in their order: a secret is in a store before it is read from there.
            groups = set(changed) or {kind.group for kind in kinds}
            changed.clear()
            woken.clear()
            for kind in [kind for kind in kinds if kind.group in groups]:
                for live in await _listed(client, kind, namespace):
                    with suppress(Transient):
                        await _answer(client, kind, live, stuck, store)
            # What no watch tells is looked at now and then: a kind that comes back, a Keystone that is gone.
            with suppress(TimeoutError):
                async with asyncio.timeout(_PERIOD):
                    await woken.wait()


async def _answer(client: Client, kind: Kind, live: dict[str, Any], stuck: set[str], store: dict[str, str]) -> None:
    if kind.group == _KORC and not await _held(client, kind, live):
        stuck.add(f"{kind.handle}/{live['metadata']['name']}")
    if kind.group == _SECRETS:
        await _stored(client, kind, live, store)
    else:
        await _granted(client, kind, live)


async def _stored(client: Client, kind: Kind, live: dict[str, Any], store: dict[str, str]) -> None:
    """What a PushSecret names is in the store, and what an ExternalSecret names comes of it when it is told to look."""
    metadata, spec = live["metadata"], live["spec"]
    namespace = metadata["namespace"]
    if kind.kind == "PushSecret":
        source = await client.get(SECRET, namespace, spec["selector"]["secret"]["name"])
        data = source["data"] if source else {}
        store |= {
            match["remoteRef"]["property"]: data[match["secretKey"]]
            for match in (each["match"] for each in spec["data"])
            if match["secretKey"] in data
        }
    asked = metadata.get("annotations", {}).get(f"{_SECRETS}/force-sync", "once")
    if (live.get("status") or {}).get("syncedResourceVersion") == asked:
        return
    if kind.kind == "ExternalSecret":
        target = spec["target"]
        data = {each["secretKey"]: store[each["remoteRef"]["property"]] for each in spec["data"]}
        owner = {"apiVersion": live["apiVersion"], "kind": kind.kind, "name": metadata["name"], "uid": metadata["uid"]}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": target["name"],
                "namespace": namespace,
                "labels": target["template"]["metadata"]["labels"],
                "ownerReferences": [{**owner, "controller": True}],
            },
            "data": data,
        }
        try:
            await client.create(SECRET, body)
        except Conflict:
            change = [{"op": "replace", "path": "/data", "value": data}]
            await client.patch_json(SECRET, namespace, target["name"], change)
    told = {**ready(kind, metadata["name"], metadata["generation"]), "syncedResourceVersion": asked}
    await client.merge_status(kind, namespace, metadata["name"], told)


async def _held(client: Client, kind: Kind, live: dict[str, Any]) -> bool:
    """K-ORC's finalizer is on what is there, and off what goes, for which it asks Keystone; False where it cannot."""
    metadata = live["metadata"]
    finalizers: list[str] = metadata.get("finalizers", [])
    going = "deletionTimestamp" in metadata
    if going != (kind.finalizer in finalizers):
        return True
    if going and await client.get(DEPLOYMENT, metadata["namespace"], "keystone-api") is None:
        return False
    wanted = [each for each in finalizers if each != kind.finalizer] if going else [*finalizers, kind.finalizer]
    await _finalized(client, kind, metadata, wanted)
    return True


async def _finalized(client: Client, kind: Kind, metadata: dict[str, Any], finalizers: list[str]) -> None:
    operations = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "add", "path": "/metadata/finalizers", "value": finalizers},
    ]
    await client.patch_json(kind, metadata["namespace"], metadata["name"], operations)


async def _granted(client: Client, kind: Kind, live: dict[str, Any]) -> None:
    name, namespace, generation = (live["metadata"][key] for key in ("name", "namespace", "generation"))
    status = live.get("status") or {}
    if kind.group == _KORC:
        if generation not in [each["observedGeneration"] for each in status.get("conditions") or ()]:
            await client.merge_status(kind, namespace, name, done(generation))
        return
    if status.get("conditions") and status.get("observedGeneration", generation) == generation:
        return
    if kind.kind == "RabbitmqCluster":
        login = {"username": "YWRtaW4=", "password": "YWRtaW4="}
        metadata = {"name": f"{name}-default-user", "namespace": namespace}
        with suppress(Conflict):
            await client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": login})
    await client.merge_status(kind, namespace, name, ready(kind, name, generation))


def done(generation: int) -> dict[str, Any]:
    """What K-ORC says of something that is in Keystone as it should be."""
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    words = {"reason": "Success", "message": "", "lastTransitionTime": at, "observedGeneration": generation}
    told = {"Available": "True", "Progressing": "False"}
    return {"id": "0", "conditions": [{"type": type_, "status": status, **words} for type_, status in told.items()]}


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
