"""Volumes of members: Kubernetes makes them for a StatefulSet, and only their claims can grow."""

from __future__ import annotations

from typing import Any

from openstack_operator import api, kube
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.client import Client, Conflict
from openstack_operator.runtime.kinds import CLAIM, STATEFUL_SET, Kind
from openstack_operator.runtime.manager import Manager
from openstack_operator.runtime.registry import Service
from openstack_operator.services.mariadb.model import MARIADB
from openstack_operator.services.mariadb.service import plan

from .harness import Cluster, eventually, running

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
    metadata = {**cluster.meta(name), "ownerReferences": [reference]}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}
    await cluster.client.create(CLAIM, body)
    await cluster.client.merge_status(CLAIM, cluster.namespace, name, {"phase": "Bound"})


async def test_a_bound_claim_grows_and_stays_its_statefulsets(cluster: Cluster):
    await ensure(cluster.client, CRD, api.crd(MARIADB))
    growing = {"provisioner": "example.org/none", "allowVolumeExpansion": True}
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "growing"}, **growing}
    await ensure(cluster.client, CLASS, body)

    async def served() -> bool:
        return "Established" in kube.conditions(await cluster.client.get(CRD, None, MARIADB.crd_name) or {})

    await eventually(served)
    client = Client.connect()
    manager = Manager(client, [Service(resource=MARIADB, plan=plan)], [], ReleaseFiles(), [cluster.namespace])
    async with cluster.simulator(), running(manager.run()):
        await cluster.create(MARIADB, "db", storageClass="growing", retention="Delete")
        await cluster.ready(MARIADB, "db")
        live = await cluster.get(STATEFUL_SET, "db-server")
        assert live
        await bound_claim(cluster, live)

        await cluster.change(MARIADB, "db", "/spec/storageSize", "20Gi")
        await cluster.ready(MARIADB, "db")
        await cluster.change(MARIADB, "db", "/spec/config", {"mysqld": {"max_connections": 99}})
        await cluster.ready(MARIADB, "db")

        claim = await cluster.get(CLAIM, "data-db-server-0")
        assert claim
        assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
        assert claim["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    await client.close()
