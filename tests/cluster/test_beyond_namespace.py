"""Who may write a resource gains nothing beyond its namespace: one attack each, against a real API server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.api import ALLOWED_HOSTS
from openstack_operator.plan import NO_PERMISSIONS, Permissions
from openstack_operator.registry import RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, SECRET, Catalog
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager

from .harness import Cluster, eventually, running

pytestmark = pytest.mark.security

RESOURCE = {resource.handle: resource for resource in RESOURCES}
KEYSTONE, PLACEMENT, MARIADB = (RESOURCE[kind] for kind in ("Keystone", "Placement", "MariaDB"))
INGRESS = next(kind for kind in Catalog([]).all if kind.kind == "Ingress")
SNIPPET = "nginx.ingress.kubernetes.io/configuration-snippet"
ELSEWHERE = {
    "database": {"secretRef": {"name": "login"}, "host": "db"},
    "keystone": {"authUrl": "https://keystone.example.org/v3", "appCredentialRef": {"secretName": "login"}},
}


@asynccontextmanager
async def operator(cluster: Cluster, root: Path, permissions: Permissions = NO_PERMISSIONS) -> AsyncGenerator[None]:
    """The services alone, with a Secret `login` that may be sent to everybody."""
    client = Client.connect()
    patience = Patience(initial=0.2, later=0.2, retrying=0.5, missing=0.2)
    releases = ReleaseFiles(root / "releases")
    served = [cluster.namespace]
    manager = Manager(client, SERVICES, (), releases, served, patience=patience, permissions=permissions)
    async with running(manager.run()), cluster.simulator():
        yield
    await client.close()


async def login(cluster: Cluster) -> None:
    meta = {**cluster.meta("login"), "annotations": {ALLOWED_HOSTS: "*"}}
    data = {"username": "YWRtaW4=", "password": "c2VjcmV0"}
    await cluster.client.create(SECRET, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})


def at(**annotations: str) -> dict[str, Any]:
    return {"type": "Ingress", "host": "bank.example.org", "ingress": {"annotations": annotations}}


async def test_no_annotation_runs_code_in_a_controller_of_the_cluster(cluster: Cluster, root: Path) -> None:
    await login(cluster)
    async with operator(cluster, root):
        await cluster.create(PLACEMENT, "placement", **ELSEWHERE, expose=at())
        await eventually(lambda: cluster.get(INGRESS, "placement-api"))
        await eventually(lambda: cluster.get(DEPLOYMENT, "placement-api"))
        await cluster.change(PLACEMENT, "placement", "/spec/expose", at(**{SNIPPET: "return 200 stolen;"}))
        condition = await cluster.ready(PLACEMENT, "placement", "InvalidSpec")
        assert f"spec.expose.ingress.annotations.{SNIPPET}: " in condition["message"]
        assert f"--ingress-annotations '{cluster.namespace}={SNIPPET}'" in condition["message"]
        live = await cluster.get(INGRESS, "placement-api") or {}
        assert SNIPPET not in live["metadata"]["annotations"]
        assert await cluster.get(DEPLOYMENT, "placement-api"), "what runs stays"


async def test_no_issuer_of_the_cluster_certifies_a_name_of_others(cluster: Cluster, root: Path) -> None:
    await login(cluster)
    asked = at(**{"cert-manager.io/cluster-issuer": "company"})
    async with operator(cluster, root):
        await cluster.create(PLACEMENT, "placement", **ELSEWHERE, expose=asked)
        condition = await cluster.ready(PLACEMENT, "placement", "InvalidSpec")
        assert "may not get certificates for bank.example.org" in condition["message"]
        assert await cluster.get(INGRESS, "placement-api") is None
    async with operator(cluster, root, Permissions(issuer_hosts=(f"{cluster.namespace}=*.example.org",))):
        await eventually(lambda: cluster.get(INGRESS, "placement-api"))


async def test_no_key_of_others_is_written_to_a_store_of_the_cluster(cluster: Cluster, root: Path) -> None:
    await login(cluster)
    store = {"name": "vault", "kind": "ClusterSecretStore", "key": "other/k-orc"}
    spec = {"database": ELSEWHERE["database"], "cache": {"servers": ["cache:11211"]}}
    async with operator(cluster, root):
        catalog = {"provider": "k-orc", "secretStoreRef": store}
        await cluster.create(KEYSTONE, "keystone", **spec, catalog=catalog)
        condition = await cluster.ready(KEYSTONE, "keystone", "InvalidSpec")
        assert "spec.catalog.secretStoreRef.key: ClusterSecretStore/vault" in condition["message"]
        assert f"--secret-store-keys '{cluster.namespace}=other/k-orc'" in condition["message"]


async def test_no_login_goes_to_a_server_of_others_in_plain_text(cluster: Cluster, root: Path) -> None:
    await login(cluster)
    server = {"provider": "external", "external": {"host": "db.example.org", "secretRef": {"name": "login"}}}
    async with operator(cluster, root):
        await cluster.create(MARIADB, "mariadb", **server)
        condition = await cluster.ready(MARIADB, "mariadb", "InvalidSpec")
        assert "spec.external.secretRef: the login would go to db.example.org without TLS" in condition["message"]
        assert await cluster.get(SECRET, "mariadb-admin") is None
        url = "http://keystone.other.svc:5000/v3"
        elsewhere = {**ELSEWHERE, "keystone": {**ELSEWHERE["keystone"], "authUrl": url}}
        await cluster.create(PLACEMENT, "placement", **elsewhere)
        condition = await cluster.ready(PLACEMENT, "placement", "InvalidSpec")
        assert f"--allow-plain-text-to '{cluster.namespace}=keystone.other.svc'" in condition["message"]
        assert await cluster.get(DEPLOYMENT, "placement-api") is None
    async with operator(cluster, root, Permissions(plain_text_to=("db.example.org",))):
        await cluster.ready(MARIADB, "mariadb")


async def test_workloads_stay_when_a_plain_text_login_is_forbidden(cluster: Cluster, root: Path) -> None:
    await login(cluster)
    url = "http://keystone.other.svc:5000/v3"
    elsewhere = {**ELSEWHERE, "keystone": {**ELSEWHERE["keystone"], "authUrl": url}}
    async with operator(cluster, root, Permissions(plain_text_to=("*",))):
        await cluster.create(PLACEMENT, "placement", **elsewhere)
        before = await eventually(lambda: cluster.get(DEPLOYMENT, "placement-api"))
        await cluster.ready(PLACEMENT, "placement")
    async with operator(cluster, root):
        await cluster.ready(PLACEMENT, "placement", "InvalidSpec")
        after = await cluster.get(DEPLOYMENT, "placement-api") or {}
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["spec"] == before["spec"]


async def test_no_pods_keep_pods_of_other_namespaces_off_nodes(cluster: Cluster, root: Path) -> None:
    await login(cluster)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    own = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    async with operator(cluster, root):
        await cluster.create(PLACEMENT, "placement", **ELSEWHERE, affinity={"podAntiAffinity": {required: [own]}})
        await eventually(lambda: cluster.get(DEPLOYMENT, "placement-api"))
        others = {**own, "namespaceSelector": {}}
        await cluster.change(PLACEMENT, "placement", "/spec/affinity/podAntiAffinity", {required: [own, others]})
        condition = await cluster.ready(PLACEMENT, "placement", "InvalidSpec")
        assert f"spec.affinity.podAntiAffinity.{required}[1].namespaceSelector: " in condition["message"]
        live = await cluster.get(DEPLOYMENT, "placement-api") or {}
        rules = live["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"][required]
        assert not any("namespaceSelector" in rule for rule in rules)


async def test_no_pods_end_pods_of_other_namespaces(cluster: Cluster, root: Path) -> None:
    await login(cluster)
    critical = "system-node-critical"
    async with operator(cluster, root):
        await cluster.create(PLACEMENT, "placement", **ELSEWHERE, priorityClassName=critical)
        condition = await cluster.ready(PLACEMENT, "placement", "InvalidSpec")
        assert "spec.priorityClassName: 'system-node-critical' is for Kubernetes' own programs" in condition["message"]
        assert f"--priority-classes '{cluster.namespace}={critical}'" in condition["message"]
        assert await cluster.get(DEPLOYMENT, "placement-api") is None
    async with operator(cluster, root, Permissions(priority_classes=(f"{cluster.namespace}={critical}",))):
        live = await eventually(lambda: cluster.get(DEPLOYMENT, "placement-api"))
        assert live["spec"]["template"]["spec"]["priorityClassName"] == critical
