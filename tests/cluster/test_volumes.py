"""Volumes of members: Kubernetes makes them for a StatefulSet, and only their claims can grow."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from openstack_operator import api, kube
from openstack_operator.plan.service import Service
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import Conflict
from openstack_operator.runtime.kubernetes.kinds import EVENT, STATEFUL_SET, VOLUME_CLAIM, Kind
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan

from .harness import Cluster, eventually, running
from .test_controlplane import listed

CRD = Kind("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions")
CLASS = Kind("storage.k8s.io/v1", "StorageClass", "storageclasses")


async def ensure(client: Client, kind: Kind, body: dict[str, Any]) -> None:
    """Makes an object of the whole cluster, unless another test has."""
    body["metadata"]["namespace"] = None
    try:
        await client.create(kind, body)
    except Conflict:
        return


async def bound_claim(cluster: Cluster, owner: dict[str, Any]) -> None:
    """What the StatefulSet controller and a provisioner make of a claim template."""
    (template,) = owner["spec"]["volumeClaimTemplates"]
    name = f"data-{owner['metadata']['name']}-0"
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True, "blockOwnerDeletion": True}
    reference |= {field: owner["metadata"][field] for field in ("name", "uid")}
    labels = owner["spec"]["selector"]["matchLabels"]
    metadata = {**cluster.meta(name), "ownerReferences": [reference], "labels": labels}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}
    await cluster.client.create(VOLUME_CLAIM, body)
    await cluster.client.merge_status(VOLUME_CLAIM, cluster.namespace, name, {"phase": "Bound"})


@asynccontextmanager
async def database(cluster: Cluster, storage_class: str, *, grows: bool) -> AsyncGenerator[None]:
    """A MariaDB `db` that is ready, with a bound volume of a StorageClass of that name."""
    await ensure(cluster.client, CRD, api.crd(MARIADB))
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": storage_class}}
    await ensure(cluster.client, CLASS, body | {"provisioner": "example.org/none", "allowVolumeExpansion": grows})

    async def served() -> bool:
        return "Established" in kube.conditions(await cluster.client.get(CRD, None, MARIADB.crd_name) or {})

    await eventually(served)
    client = Client.connect()
    manager = Manager(client, [Service(resource=MARIADB, plan=plan)], [], ReleaseFiles(), [cluster.namespace])
    async with cluster.simulator(), running(manager.run()):
        await cluster.create(MARIADB, "db", storageClassName=storage_class, retention="Delete")
        await cluster.ready(MARIADB, "db")
        live = await cluster.get(STATEFUL_SET, "db-server")
        assert live
        await bound_claim(cluster, live)
        yield
    await client.close()


async def size(cluster: Cluster) -> str:
    live = await cluster.get(VOLUME_CLAIM, "data-db-server-0")
    assert live
    return live["spec"]["resources"]["requests"]["storage"]


async def test_a_bound_claim_grows_and_stays_its_statefulsets(cluster: Cluster):
    async with database(cluster, "growing", grows=True):
        await cluster.change(MARIADB, "db", "/spec/storageSize", "20Gi")
        await cluster.ready(MARIADB, "db")
        await cluster.change(MARIADB, "db", "/spec/config", {"mysqld": {"max_connections": 99}})
        await cluster.ready(MARIADB, "db")
        assert await size(cluster) == "20Gi"
        claim = await cluster.get(VOLUME_CLAIM, "data-db-server-0")
        assert claim and claim["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"


async def test_a_claim_that_somebody_deletes_is_told_of_while_it_is_mounted(cluster: Cluster):
    async with database(cluster, "deleted", grows=True):
        # Kubernetes adds this itself where something mounts the claim.
        protected = {"metadata": {**cluster.meta("data-db-server-0"), "finalizers": ["kubernetes.io/pvc-protection"]}}
        await cluster.client.merge(VOLUME_CLAIM, {**protected, "spec": {"volumeName": "pv-1"}})
        await cluster.delete(VOLUME_CLAIM, "data-db-server-0")

        async def told() -> str:
            message = (await cluster.condition(MARIADB, "db", "ServerReady"))["message"]
            return message if "data-db-server-0 is being deleted" in message else ""

        assert "kubectl patch pv pv-1" in await eventually(told)
        assert (await cluster.condition(MARIADB, "db"))["status"] == "True"

        async def warned() -> list[str]:
            events = await listed(cluster, EVENT)
            return [event["type"] for event in events if event["reason"] == "VolumeDeleting"]

        assert await eventually(warned) == ["Warning"]
        operations = [{"op": "remove", "path": "/metadata/finalizers"}]
        await cluster.client.patch_json(VOLUME_CLAIM, cluster.namespace, "data-db-server-0", operations)

        async def over() -> bool:
            return not (await cluster.condition(MARIADB, "db", "ServerReady"))["message"]

        await eventually(over)


async def test_a_claim_of_a_plan_serves_while_it_is_being_deleted(cluster: Cluster):
    """One that the operator has grown is in its plan."""
    async with database(cluster, "grown", grows=True):
        await cluster.change(MARIADB, "db", "/spec/storageSize", "20Gi")

        async def grown() -> bool:
            return await size(cluster) == "20Gi"

        await eventually(grown)
        await cluster.ready(MARIADB, "db")
        protected = {"metadata": {**cluster.meta("data-db-server-0"), "finalizers": ["kubernetes.io/pvc-protection"]}}
        await cluster.client.merge(VOLUME_CLAIM, protected)
        await cluster.delete(VOLUME_CLAIM, "data-db-server-0")

        async def told() -> bool:
            message = (await cluster.condition(MARIADB, "db", "ServerReady"))["message"]
            return "data-db-server-0 is being deleted" in message

        await eventually(told)
        assert (await cluster.condition(MARIADB, "db"))["status"] == "True"


async def test_a_volume_that_cannot_grow_names_the_field_and_the_way_out(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("openstack_operator.runtime.reconcile.apply._UNWATCHED", 0.2)
    async with database(cluster, "fixed", grows=False):
        await cluster.change(MARIADB, "db", "/spec/storageSize", "20Gi")
        condition = await cluster.ready(MARIADB, "db", "InvalidSpec")
        assert "spec.storageSize: " in condition["message"]
        assert (
            "must support resize; to grow the volume, set allowVolumeExpansion: true in its StorageClass"
            in (condition["message"])
        )
        assert await size(cluster) == "10Gi"
        operations = [{"op": "replace", "path": "/allowVolumeExpansion", "value": True}]
        await cluster.client.patch_json(CLASS, "", "fixed", operations)
        await cluster.ready(MARIADB, "db")
        assert await size(cluster) == "20Gi"
