"""Cortex on a real API server: a kind of another group, its manifest as teams write it, and a cloud whose Nova asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.api import ALLOWED_HOSTS
from openstack_operator.kube import conditions, secret_data
from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, SECRET, STATEFUL_SET
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.cortex.model import CORTEX
from openstack_operator.yaml_text import load_text

from .harness import Cluster, eventually
from .rest import Rest
from .test_controlplane import operator

# Every field there is of the manifest that Cortex's users have.
WRITTEN = """
apiVersion: cortex.c5c3.io/v1alpha1
kind: Cortex
metadata:
  name: cortex
spec:
  replicas: 2
  image: {repository: "registry.example.org:5000/cortex", tag: "0.5.0"}
  database:
    secretRef: {name: cortex-login}
    database: cortex
  keystone:
    authUrl: https://keystone.openstack.svc.cluster.local:5000/v3
    appCredentialRef: {name: cortex-credential}
  pipelines:
    nova:
      enabled: true
      filters: [{name: AvailabilityZoneFilter}, {name: ComputeCapabilitiesFilter}]
      weighers: [{name: RAMWeigher, weight: 1.0}, {name: CPUWeigher, weight: 0.5}]
    cinder: {enabled: true}
  datasources:
    prometheus: {enabled: true, endpoint: "http://prometheus.monitoring:9090"}
    nova: {enabled: true, endpoint: "https://nova.openstack.svc.cluster.local:8774"}
  dependsOn: DEPENDS
"""
NONE, BOTH = "[]", "[{kind: Nova, name: nova, condition: Ready}, {kind: Cinder, name: cinder, condition: Ready}]"


def written(depends: str = NONE) -> dict[str, Any]:
    return load_text(WRITTEN.replace("DEPENDS", depends))[0]


@pytest.fixture
def rest(kubeconfig: Path, cluster: Cluster) -> Iterator[Rest]:
    connection = Rest(kubeconfig, cluster.namespace)
    yield connection
    connection.close()


async def login(cluster: Cluster, *names: str) -> None:
    for name in names:
        meta = {**cluster.meta(name), "annotations": {ALLOWED_HOSTS: "keystone.openstack.svc.cluster.local"}}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"password": "own"}}
        await cluster.client.create(SECRET, body)


def test_a_strict_api_server_takes_it_as_it_is_written(rest: Rest) -> None:
    status, answer = rest.apply(written(BOTH))
    assert status == 201, answer
    assert rest.apply(written(BOTH))[1]["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"]


async def test_cortex_becomes_ready_and_publishes_its_address_and_pipelines(
    cluster: Cluster, rest: Rest, root: Path
) -> None:
    async with operator(cluster, root):
        assert rest.apply(written())[0] == 201
        condition = await cluster.ready(CORTEX, "cortex", "MissingReference")
        assert "spec.database.secretRef.name: there is no Secret 'cortex-login'" in condition["message"]
        await login(cluster, "cortex-login", "cortex-credential")
        await cluster.ready(CORTEX, "cortex")

        async def active() -> bool:
            status = (await cluster.get(CORTEX, "cortex") or {})["status"]
            return status.get("activePipelines") == ["nova", "cinder"]

        await eventually(active)
        live = await cluster.get(CORTEX, "cortex") or {}
        assert live["status"]["endpoint"] == f"http://cortex.{cluster.namespace}.svc.cluster.local:8080"
        assert {"Ready", "PipelinesReady"} <= {name for name, c in conditions(live).items() if c["status"] == "True"}
        pods = (await cluster.get(DEPLOYMENT, "cortex-api") or {})["spec"]["template"]["spec"]
        assert pods["containers"][0]["image"] == "registry.example.org:5000/cortex:0.5.0"


async def test_cortex_waits_for_its_dependencies(cluster: Cluster, rest: Rest, root: Path) -> None:
    async with operator(cluster, root):
        await login(cluster, "cortex-login", "cortex-credential")
        assert rest.apply(written(BOTH))[0] == 201
        condition = await cluster.ready(CORTEX, "cortex", "Waiting")
        assert "waiting for Nova/nova to be Ready; there is none in this namespace yet" in condition["message"]
        assert await cluster.get(DEPLOYMENT, "cortex-api") is None


async def test_nova_asks_cortex_only_while_the_cloud_has_one(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root):
        await cluster.create(CONTROL_PLANE, "cloud", cortex={"enabled": True})
        await cluster.ready(CONTROL_PLANE, "cloud")
        live = await cluster.get(CONTROL_PLANE, "cloud") or {}
        assert conditions(live)["CortexReady"]["status"] == "True"
        address = f"https://cortex.{cluster.namespace}.svc.cluster.local:8080"

        async def told() -> bool:
            held = secret_data(await cluster.get(SECRET, "nova-scheduler-config"))
            return f"url = {address}/scheduler/nova/external" in held.get("nova.conf", "")

        await eventually(told)
        await cluster.change(CONTROL_PLANE, "cloud", "/spec/cortex", {"enabled": False})

        async def forgotten() -> bool:
            pods = (await cluster.get(STATEFUL_SET, "nova-scheduler") or {})["spec"]["template"]["spec"]
            mounted = {volume["secret"]["secretName"] for volume in pods["volumes"] if "secret" in volume}
            return "nova-config" in mounted and await cluster.get(SECRET, "nova-scheduler-config") is None

        async def gone() -> bool:
            return await cluster.get(CORTEX, "cortex") is None

        await eventually(forgotten)
        await eventually(gone)
