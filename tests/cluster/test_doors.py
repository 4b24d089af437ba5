"""The cloud by the names of c5c3.io on a real API server, and names that both groups have."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from openstack_operator.kube import conditions
from openstack_operator.registry import EXTERNAL_KINDS, RESOURCES
from openstack_operator.runtime.kubernetes.errors import Conflict
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, Catalog
from openstack_operator.services.controlplane.c5c3_model import C5C3_CONTROL_PLANE

from .external_operators import external_operators
from .harness import Cluster, eventually
from .test_controlplane import nothing_left, operator
from .test_korc import ASKED, check_catalog, none
from .test_providers import NFS, check_certificates

RESOURCE = {resource.handle: resource for resource in RESOURCES}
KEYSTONE, C5C3_KEYSTONE = RESOURCE["Keystone"], RESOURCE["Keystone.keystone.openstack.c5c3.io"]


@pytest.mark.proves("ControlPlane", "status.phase", "status.endpoint", "status.conditions[Ready]")
async def test_a_cloud_by_the_other_names_becomes_ready_and_goes(cluster: Cluster, root: Path) -> None:
    """Other operators are there: its servers are theirs, with its certificates, and K-ORC keeps its catalog."""
    async with operator(cluster, root), external_operators(cluster) as stuck:
        services = {"cinder": {"enabled": True, "backends": [NFS]}}
        await cluster.create(C5C3_CONTROL_PLANE, "cloud", services=services, **ASKED)
        await cluster.ready(C5C3_CONTROL_PLANE, "cloud")
        live = await cluster.get(C5C3_CONTROL_PLANE, "cloud") or {}
        assert live["status"]["phase"] == "Ready"
        assert live["status"]["endpoint"].startswith("https://keystone.")
        assert {"MariaDBReady", "KeystoneReady", "CinderReady"} <= set(conditions(live))
        assert await cluster.get(KEYSTONE, "keystone") is None
        assert await cluster.get(C5C3_KEYSTONE, "keystone")
        await check_certificates(cluster)
        await check_catalog(cluster)
        await cluster.delete(C5C3_CONTROL_PLANE, "cloud", "Background")
        await nothing_left(cluster)
        await eventually(lambda: none(cluster))
        assert not stuck


async def test_a_second_resource_of_a_name_takes_over_when_the_first_goes(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        for kind in ("MariaDB", "Memcached"):
            await cluster.create(RESOURCE[kind], kind.lower())
        await cluster.create(KEYSTONE, "keystone")
        await cluster.ready(KEYSTONE, "keystone")
        made = await cluster.get(DEPLOYMENT, "keystone-api") or {}
        await cluster.create(C5C3_KEYSTONE, "keystone", replicas=2)
        refused = await cluster.ready(C5C3_KEYSTONE, "keystone", "InvalidSpec")
        assert "Keystone/keystone of openstack.k8s.io has the same name" in refused["message"]
        assert "rename or delete" in refused["message"]
        assert await cluster.get(DEPLOYMENT, "keystone-api") == made
        await cluster.ready(KEYSTONE, "keystone")

        await cluster.delete(KEYSTONE, "keystone")

        async def taken_over() -> bool:
            now = await cluster.get(DEPLOYMENT, "keystone-api") or {"spec": {}}
            return now["spec"].get("replicas") == 2

        await collected(cluster, made["metadata"]["ownerReferences"][0]["uid"])
        await eventually(taken_over)


async def collected(cluster: Cluster, owner: str) -> None:
    """Removes what belonged to an owner that is gone, as Kubernetes does where it has controllers."""
    for kind in Catalog(RESOURCES, EXTERNAL_KINDS).all:
        page = (
            json.loads(await cluster.client.page(kind, cluster.namespace, {}))
            if kind not in EXTERNAL_KINDS
            else {"items": []}
        )
        for live in page["items"]:
            if any(reference["uid"] == owner for reference in live["metadata"].get("ownerReferences", ())):
                name, uid = live["metadata"]["name"], live["metadata"]["uid"]
                # What has its successor by now is not to go with it.
                with contextlib.suppress(Conflict):
                    await cluster.client.delete(kind, cluster.namespace, name, uid, "Background")
