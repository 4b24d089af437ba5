"""Monitors and alerts on a real API server: none where there is no Prometheus' operator, and taken where there is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.kube import conditions
from openstack_operator.registry import EXTERNAL_KINDS
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .conftest import CRD, install
from .harness import Cluster, eventually
from .test_controlplane import operator

KINDS = [kind for kind in EXTERNAL_KINDS if kind.group == "monitoring.coreos.com"]


def of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def many(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


TEXT, TEXTS = {"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}
ENDPOINT = of(
    port=TEXT,
    scheme=TEXT,
    tlsConfig=of(serverName=TEXT, ca=of(secret=of(name=TEXT, key=TEXT))),
    relabelings=many(of(sourceLabels=many(TEXT), targetLabel=TEXT)),
)
SPECS = {
    "PodMonitor": of(
        selector=of(matchLabels=TEXTS),
        podTargetLabels=many(TEXT),
        podMetricsEndpoints=many(ENDPOINT),
    ),
    "PrometheusRule": of(
        groups=many(
            of(name=TEXT, rules=many(of(alert=TEXT, expr=TEXT, labels=TEXTS, annotations=TEXTS, **{"for": TEXT})))
        )
    ),
}
"""The fields of Prometheus' operator's definitions that are written, in their places; none besides is known."""


def definition(kind: Kind) -> dict[str, Any]:
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()}
    schema = {"openAPIV3Schema": of(spec=SPECS[kind.kind])}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": CRD.api_version,
        "kind": CRD.kind,
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.fixture
async def gone_after(cluster: Cluster) -> AsyncIterator[None]:
    """What the test installs is there for no other one."""
    yield
    for kind in KINDS:
        if live := await cluster.client.get(CRD, None, f"{kind.plural}.{kind.group}"):
            await cluster.client.delete(CRD, "", live["metadata"]["name"], live["metadata"]["uid"], "Background")


async def made(cluster: Cluster, kind: Kind) -> set[str]:
    return {
        live["metadata"]["name"]
        for live in json.loads(await cluster.client.page(kind, cluster.namespace, {}))["items"]
        if live["metadata"]["labels"]["release"] == "own"
    }


@pytest.mark.usefixtures("gone_after")
@pytest.mark.proves("OpenStackControlPlane", "spec.monitoring.enabled", "spec.monitoring.labels")
async def test_a_cloud_is_ready_without_prometheus_and_watched_when_it_comes(cluster: Cluster, root: Path) -> None:
    monitors, rules = KINDS
    async with operator(cluster, root):
        watched = {"enabled": True, "labels": {"release": "own"}}
        await cluster.create(CONTROL_PLANE, "cloud", monitoring=watched)
        await cluster.ready(CONTROL_PLANE, "cloud")
        told = conditions(await cluster.get(CONTROL_PLANE, "cloud") or {})["MonitoringReady"]
        assert told["status"] == "True"
        assert "lacks podmonitors.monitoring.coreos.com and prometheusrules" in told["message"]

        await install(map(definition, KINDS))
        expected = {"mariadb-server", "rabbitmq-server", "keystone-api", "glance-api", "placement-api", "neutron-api"}
        expected |= {"nova-api", "nova-metadata", "nova-cell1-novncproxy"}
        expected |= {"memcached-server", "ovn-nb", "ovn-sb", "ovn-northd", "ovn-exporter", "nova-libvirt-exporter"}

        async def there() -> bool:
            return (await made(cluster, monitors), await made(cluster, rules)) == (expected, {"cloud"})

        await eventually(there)

        async def told_so() -> bool:
            """What was made is there before the status that tells of it."""
            told = conditions(await cluster.get(CONTROL_PLANE, "cloud") or {})["MonitoringReady"]
            return (told["status"], told["message"]) == ("True", "")

        await eventually(told_so)
        await cluster.ready(CONTROL_PLANE, "cloud")

        await cluster.change(CONTROL_PLANE, "cloud", "/spec/monitoring/enabled", False)

        async def left() -> bool:
            told = conditions(await cluster.get(CONTROL_PLANE, "cloud") or {})
            return not (await made(cluster, monitors) | await made(cluster, rules) or "MonitoringReady" in told)

        await eventually(left)
