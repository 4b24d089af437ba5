"""The ControlPlane of c5c3 with all it may have, encrypted, only smaller: operators of others run what they have kinds
for, and the rest is built in.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tools.cloud import proof, view
from tools.cloud.stopwatch import Stopwatch
from tools.localcluster.kubernetes import Kubernetes

from .. import documented
from ..conftest import Report
from ..waiting import until
from . import prometheus
from .asked import raised, ready

NAMESPACE = "whole"
PLANE = "controlplanes.c5c3.io"
THEIRS = {
    "mariadbs.k8s.mariadb.com": "mariadb",
    "rabbitmqclusters.rabbitmq.com": "rabbitmq",
    "memcacheds.memcached.c5c3.io": "memcached",
}


def plane(host: str) -> dict[str, Any]:
    """One of each, and where this machine reaches it. The issuer is the built-in one: no cert-manager is here."""
    shown = {"expose": {"type": "NodePort", "host": host}}
    names = ("keystone", "glance", "placement", "nova", "neutron", "cinder")
    services: dict[str, Any] = {name: {"enabled": True, **shown} for name in names}
    for name in ("keystone", "glance", "placement"):
        services[name]["replicas"] = 1
    services["nova"] |= {name: {"replicas": 1} for name in ("api", "scheduler", "conductor")}
    services["neutron"]["api"] = {"replicas": 1}
    services["cinder"] |= {name: {"replicas": 1} for name in ("api", "scheduler")}
    return {
        "apiVersion": "c5c3.io/v1alpha1",
        "kind": "ControlPlane",
        "metadata": {"name": "production", "namespace": NAMESPACE},
        "spec": {
            "infrastructure": {
                "mariadb": {"replicas": 1, "storageSize": "2Gi", "storageClass": "local-path"},
                "rabbitmq": {"replicas": 1, "storageSize": "1Gi"},
                "valkey": {"replicas": 3, "sentinel": {"enabled": True}},
                "memcached": {"replicas": 1, "memory": "64Mi"},
                "ovn": {"externalBridge": {"address": f"{proof.GATEWAY}/24"}},
            },
            "services": services,
            "cortex": {"enabled": False, "replicas": 2},
            "tempest": {"enabled": False, "schedule": "0 2 * * *"},
            "korc": {"enabled": True, "bootstrapResources": ["domains", "projects"]},
            "global": {"region": "RegionOne", "tls": {"enabled": True}, "monitoring": {"enabled": True}},
        },
    }


@pytest.fixture(scope="module")
def cloud(cluster: Kubernetes, report: Report) -> Iterator[Kubernetes]:
    """The cloud, Ready."""
    with raised(cluster, NAMESPACE, "valkey", "cinder", "ceph"):
        # Cinder keeps volumes in it, as the cloud finds it in its namespace.
        metadata = {"name": "ceph", "namespace": NAMESPACE}
        cluster.apply({"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "CephStorage", "metadata": metadata})
        cluster.apply(plane(cluster.address()))
        started = time.monotonic()
        until("the cloud to be Ready", lambda: view.ready(found(cluster, PLANE, "production")), 900, 2)
        report.add(whole_apply_to_ready_seconds=round(time.monotonic() - started, 1))
        yield cluster


def found(cluster: Kubernetes, kind: str, name: str) -> dict[str, Any]:
    return cluster.get(kind, name, "-n", NAMESPACE)


def test_each_part_says_that_it_is_ready(cloud: Kubernetes) -> None:
    live = found(cloud, PLANE, "production")
    assert live["status"]["phase"] == "Ready"
    said = {name: each["status"] for name, each in view.conditions(live).items()}
    parts = ("MariaDB", "RabbitMQ", "Valkey", "Memcached", "Keystone", "Glance", "Placement", "Nova", "Neutron")
    parts += ("Cinder", "KORC", "Monitoring")
    assert {name: said.get(f"{name}Ready") for name in parts} == dict.fromkeys(parts, "True")
    assert "monitoring.coreos.com" not in view.conditions(live)["MonitoringReady"]["message"], "its kinds are here"


def test_servers_are_those_of_others_and_encrypted(cloud: Kubernetes) -> None:
    for kind, name in THEIRS.items():
        assert ready(found(cloud, kind, name))
    own = {each["metadata"]["name"] for each in cloud.items("statefulsets.apps", "-n", NAMESPACE)}
    assert not {"mariadb-server", "memcached-server"} & own
    assert "valkey-server" in own, "its operator is not here"
    assert found(cloud, "rabbitmqclusters.rabbitmq.com", "rabbitmq")["spec"]["tls"]["secretName"]
    assert cloud.items("users.openstack.k-orc.cloud", "-n", NAMESPACE)


def test_prometheus_reads_each_monitor_and_no_alert_fires(cloud: Kubernetes, report: Report) -> None:
    prometheus.start(cloud)
    until("each monitor to be read", lambda: not prometheus.down(cloud, NAMESPACE), 180, 3)
    assert {each["name"] for each in prometheus.groups(cloud, NAMESPACE)}
    rules = [rule for group in prometheus.groups(cloud, NAMESPACE) for rule in group["rules"]]
    assert {rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")} == {}
    states = prometheus.alerts(cloud, NAMESPACE)
    report.add(alerts_of_a_calm_cloud=states)
    assert "firing" not in states.values()


def test_an_alert_is_pending_once_nobody_answers(cloud: Kubernetes) -> None:
    """It fires after its minutes, which nobody waits for here."""
    where = ("-n", NAMESPACE, "patch", "podmonitors.monitoring.coreos.com", "keystone-api", "--type=merge", "-p")
    assert prometheus.alerts(cloud, NAMESPACE)["OpenStackSilent"] == "inactive"
    cloud.kubectl("-n", "openstack-operator", "scale", "deployment/openstack-operator", "--replicas=0")
    try:
        cloud.kubectl(*where, '{"spec": {"podMetricsEndpoints": [{"port": "metrics", "scheme": "http"}]}}')
        silent = lambda: prometheus.alerts(cloud, NAMESPACE)["OpenStackSilent"] == "pending"  # noqa: E731
        until("the alert to be pending", silent, 120, 2)
    finally:
        cloud.kubectl("-n", "openstack-operator", "scale", "deployment/openstack-operator", "--replicas=1")
    # The operator writes the monitor as it was.
    until("each monitor to be read again", lambda: not prometheus.down(cloud, NAMESPACE), 180, 3)


def test_a_server_answers_on_its_floating_ip(cloud: Kubernetes, report: Report) -> None:
    facts = proof.prove(cloud, NAMESPACE, Stopwatch(Console()))
    report.add(whole_proof=facts)
    assert facts["reply"]


def test_the_tutorial_of_a_first_cloud_works_with_k_orc(cloud: Kubernetes, tmp_path: Path) -> None:
    """docs/tutorials/first-cloud.md, in the namespace of this cloud."""
    script = documented.script(documented.FIRST_CLOUD, {"cloud", "k-orc"}, folder="build/first")
    script = script.replace("-n openstack", f"-n {NAMESPACE}").replace(
        "namespace: openstack", f"namespace: {NAMESPACE}"
    )
    output = documented.run(cloud, script, tmp_path, timeout=900)
    assert re.search("^second", output, re.MULTILINE), "the server answers with its name"


def test_all_of_it_goes(cloud: Kubernetes, report: Report) -> None:
    """Also what K-ORC keeps, which needs Keystone until then."""
    # Guests of a deleted cloud run on, and the next one would not start a nova-compute beside them.
    conn = proof.connect(cloud, NAMESPACE)
    for server in conn.compute.servers():
        conn.compute.delete_server(server)
        conn.compute.wait_for_delete(server, interval=0.5)
    started = time.monotonic()
    cloud.kubectl("-n", NAMESPACE, "delete", PLANE, "production", "--timeout=300s", timeout=310)
    report.add(whole_removed_seconds=round(time.monotonic() - started, 1))
    for kind in (*THEIRS, "users.openstack.k-orc.cloud", "services.openstack.k-orc.cloud"):
        until(f"{kind} to be gone", lambda k=kind: not cloud.items(k, "-n", NAMESPACE), 120, 1)
