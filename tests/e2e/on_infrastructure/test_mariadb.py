"""MariaDB from 10.11 to 11.8: a cluster of three, and a single server, each under a writer of rows."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from tools.chaos.journal import Journal, now
from tools.chaos.load import Load
from tools.chaos.writers import Rows
from tools.cloud.view import conditions, ready
from tools.localcluster.kubernetes import ROOT, Kubernetes, ours

from ..conftest import Report
from ..waiting import until
from .conftest import NAMESPACE

OLD, NEW = "10.11", "11.8"
KIND = ours("mariadb")
THREE, ONE = "three", "one"
GAP = {THREE: 20.0, ONE: 90.0}
"""Longest time without an acknowledged row, in seconds: in a cluster, while another member takes the clients over; of a
single server, its end, its start and the upgrade of its system tables.
"""


def made(cluster: Kubernetes, name: str, replicas: int, version: str) -> None:
    spec = {"replicas": replicas, "version": version, "storageSize": "1Gi"}
    cluster.apply(
        {
            "apiVersion": "openstack.k8s.io/v1alpha1",
            "kind": "MariaDB",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": spec,
        }
    )


def live(cluster: Kubernetes, name: str) -> dict[str, Any]:
    return cluster.get(KIND, name, "-n", NAMESPACE)


def pods(cluster: Kubernetes, name: str) -> list[dict[str, Any]]:
    labels = f"app.kubernetes.io/instance={name},app.kubernetes.io/component=server"
    return cluster.items("pods", "-n", NAMESPACE, "-l", labels)


def versions(cluster: Kubernetes, name: str) -> list[str]:
    """Return the labels of the versions of the pods, in order."""
    labels = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in pods(cluster, name)}
    return [labels[each]["app.kubernetes.io/version"] for each in sorted(labels)]


def asked(cluster: Kubernetes, pod: str, statement: str) -> str:
    """Return what a member's own server answers to the user that owns its files."""
    words = ("mariadb", "-u", "mysql", "-Ne", statement)
    return cluster.kubectl("exec", "-n", NAMESPACE, pod, "-c", "main", "--", *words).strip()


def noted(cluster: Kubernetes, pod: str) -> str:
    """Return the version that mariadb-upgrade has noted."""
    words = ("cat", "/var/lib/mysql/mariadb_upgrade_info")
    return cluster.kubectl("exec", "-n", NAMESPACE, pod, "-c", "main", "--", *words).strip()


def patched(cluster: Kubernetes, name: str, version: str) -> None:
    patch = json.dumps({"spec": {"version": version}})
    cluster.kubectl("patch", KIND, name, "-n", NAMESPACE, "--type=merge", "-p", patch)


def await_version(cluster: Kubernetes, name: str, version: str, seconds: float, said: list[str]) -> None:
    """Wait until all pods have a version and the resource is Ready; `said` gets what its conditions said meanwhile."""

    def has_it() -> bool:
        resource = live(cluster, name)
        condition = conditions(resource).get("VersionReady", {})
        if (message := condition.get("message", "")) and message not in said:
            said.append(message)
            print(f"    {message}")
        return ready(resource) and not condition and set(versions(cluster, name)) == {version}

    until(f"{name} to have MariaDB {version}", has_it, seconds, 2, stages=())


def writer(cluster: Kubernetes, name: str) -> Rows:
    """A client that reaches the server that takes the clients."""
    spec = cluster.get("service", name, "-n", NAMESPACE)["spec"]
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": f"{name}-outside", "namespace": NAMESPACE},
            "spec": {"type": "NodePort", "selector": spec["selector"], "ports": [{"port": 3306}]},
        }
    )
    port = cluster.get("service", f"{name}-outside", "-n", NAMESPACE)["spec"]["ports"][0]["nodePort"]
    words = ("-o", "jsonpath={.data.root}")
    encoded = cluster.kubectl("get", "secret", f"{name}-credentials", "-n", NAMESPACE, *words)
    password = base64.b64decode(encoded).decode()
    return Rows(cluster.address(), port, password, None, interval=0.1)


def upgraded(cluster: Kubernetes, name: str, seconds: float) -> tuple[Rows, Journal, list[str], dict[str, float]]:
    """Change the version while rows are written; return the writer, its journal, what conditions said, and figures."""
    rows, journal, said = writer(cluster, name), Journal(ROOT / "build" / f"{name}.journal"), list[str]()
    with Load(journal, [rows]):
        began = now()
        until("rows to be written", lambda: len(journal.acknowledged("rows")) > 20, 60, stages=())
        patched(cluster, name, NEW)
        start = now()
        await_version(cluster, name, NEW, seconds, said)
        took = now() - start
        time.sleep(5)
    gap = journal.outages(start, now(), {"rows": rows.interval})["rows"]
    figures = {"seconds": round(took, 1), "longest_gap": gap, "failed": journal.failed(began).get("rows", 0)}
    return rows, journal, said, figures


@pytest.fixture(scope="module")
def three(cluster: Kubernetes) -> Kubernetes:
    """Three members of the old version, Ready."""
    made(cluster, THREE, 3, OLD)
    await_version(cluster, THREE, OLD, 300, [])
    return cluster


def test_a_cluster_changes_to_the_next_major_version_under_a_writer(three: Kubernetes, report: Report) -> None:
    cluster, names = three, [f"{THREE}-server-{ordinal}" for ordinal in range(3)]
    assert all(asked(cluster, name, "SELECT VERSION()").startswith(OLD) for name in names)
    rows, journal, said, figures = upgraded(cluster, THREE, 420)
    acknowledged = journal.acknowledged("rows")
    figures["acknowledged"] = len(acknowledged)
    report.add(mariadb_cluster=figures, mariadb_conditions=said)
    print(f"    {figures}")
    assert acknowledged <= rows.present()
    counts = {asked(cluster, name, "SELECT COUNT(*) FROM chaos.acked") for name in names}
    assert len(counts) == 1, "all members have the same"
    for name in names:
        assert asked(cluster, name, "SELECT VERSION()").startswith(NEW)
        assert noted(cluster, name).startswith(NEW)
        assert asked(cluster, name, "SHOW STATUS LIKE 'wsrep_cluster_size'").endswith("3")
        assert asked(cluster, name, "SHOW STATUS LIKE 'wsrep_local_state_comment'").endswith("Synced")
    assert any(f"{THREE}-server-0 runs {OLD}" in message for message in said)
    assert figures["longest_gap"] <= GAP[THREE]


def test_a_cluster_does_not_go_back(three: Kubernetes) -> None:
    before = {pod["metadata"]["uid"] for pod in pods(three, THREE)}
    patched(three, THREE, OLD)

    def is_refused() -> bool:
        condition = conditions(live(three, THREE)).get("Ready", {})
        text = f"{OLD} cannot read the data of the running"
        return condition.get("reason") == "InvalidSpec" and text in condition["message"]

    until("the old version to be refused", is_refused, 60, stages=())
    patched(three, THREE, NEW)
    until("the cluster to be Ready", lambda: ready(live(three, THREE)), 60, stages=())
    assert {pod["metadata"]["uid"] for pod in pods(three, THREE)} == before


def test_a_single_server_changes_to_the_next_major_version(cluster: Kubernetes, report: Report) -> None:
    made(cluster, ONE, 1, OLD)
    await_version(cluster, ONE, OLD, 180, [])
    rows, journal, _, figures = upgraded(cluster, ONE, 240)
    acknowledged = journal.acknowledged("rows")
    report.add(mariadb_single=figures)
    print(f"    {figures}")
    assert acknowledged <= rows.present()
    assert noted(cluster, f"{ONE}-server-0").startswith(NEW)
    assert figures["longest_gap"] <= GAP[ONE]


def test_an_old_server_does_not_touch_the_data_of_a_new_one(cluster: Kubernetes) -> None:
    """The volume outlives the resource, and a new one of the same name may ask for another version."""
    cluster.kubectl("delete", KIND, ONE, "-n", NAMESPACE, "--wait", "--timeout=90s")
    until("its pod to end", lambda: not pods(cluster, ONE), 120, stages=())
    made(cluster, ONE, 1, OLD)

    def says_why() -> bool:
        message = conditions(live(cluster, ONE)).get("Ready", {}).get("message", "")
        return f"the data are of MariaDB {NEW}" in message

    until("the condition to say why", says_why, 120, stages=())
    cluster.kubectl("delete", KIND, ONE, "-n", NAMESPACE, "--wait", "--timeout=90s")
    until("its pod to end", lambda: not pods(cluster, ONE), 120, stages=())
    made(cluster, ONE, 1, NEW)
    await_version(cluster, ONE, NEW, 180, [])
    assert writer(cluster, ONE).present()
