"""Runs that are ordered, and what the status tells of them."""

from __future__ import annotations

import json
from typing import Any

from cloud import view
from cloud.kubernetes import Kubernetes
from cloud.session import Cloud, Session

from ..conftest import Report
from ..facts import ready_again
from ..waiting import until

TEMPESTS = "tempests.tempest.openstack.c5c3.io"
RUN_NOW = "tempest.openstack.c5c3.io/run-now"
PODS = ("pods", "-l", "openstack.k8s.io/kind=tempest")


def live(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    return cluster.get(TEMPESTS, "tempest", "-n", cloud.namespace)


def passed(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    """The condition TestsPassed."""
    return view.conditions(live(cluster, cloud)).get("TestsPassed", {})


def order(cluster: Kubernetes, cloud: Cloud, word: str) -> None:
    where = ("-n", cloud.namespace, "--overwrite")
    cluster.kubectl("annotate", TEMPESTS, "tempest", f"{RUN_NOW}={word}", *where)


def test_a_run_that_is_ordered_passes(cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report) -> None:
    cloud = stood[1]
    assert passed(cluster, cloud)["reason"] == "Waiting"
    assert cluster.items(*PODS, "-n", cloud.namespace) == []
    order(cluster, cloud, "first")
    until("tests that passed", lambda: passed(cluster, cloud)["status"] == "True", 1200, 5)
    status = live(cluster, cloud)["status"]
    report.add(tempest_results=status["results"], tempest_duration=status["lastDuration"])
    results = status["results"]
    assert results["passedTests"] > 5
    assert results["failedTests"] == 0
    assert results["totalTests"] == results["passedTests"] + results["skippedTests"]
    assert status["lastRun"].endswith("Z")


def test_the_same_order_is_one_run(cluster: Kubernetes, stood: tuple[Session, Cloud]) -> None:
    cloud = stood[1]
    order(cluster, cloud, "first")
    ready_again(cluster, cloud)
    assert len(cluster.items(*PODS, "-n", cloud.namespace)) == 1


def test_no_password_is_in_the_log(cluster: Kubernetes, stood: tuple[Session, Cloud]) -> None:
    cloud = stood[1]
    (pod,) = cluster.items(*PODS, "-n", cloud.namespace)
    log = cluster.kubectl("logs", pod["metadata"]["name"], "-n", cloud.namespace)
    assert "passed  tempest.api.identity" in log
    secret = "jsonpath={.data.identity}"
    where = ("get", "secret", "tempest-credentials", "-n", cloud.namespace, "-o")
    encoded = cluster.kubectl(*where, secret)
    decoded = cluster.kubectl(*where, "go-template={{.data.identity | base64decode}}")
    assert encoded
    assert decoded
    assert encoded not in log
    assert decoded not in log


def test_a_schedule_runs_too_and_a_run_that_cannot_test_says_why(
    cluster: Kubernetes, stood: tuple[Session, Cloud]
) -> None:
    """The cloud has no such image: nothing is broken, and the condition names the field."""
    cloud = stood[1]
    tempest = {"schedule": "* * * * *", "tests": {"image": "missing"}}
    patch = json.dumps({"spec": {"tempest": tempest}})
    where = ("openstackcontrolplane", cloud.name, "-n", cloud.namespace)
    cluster.kubectl("patch", *where, "--type=merge", "-p", patch)
    until("a run that failed", lambda: passed(cluster, cloud)["reason"] == "RunFailed", 300, 5)
    assert "spec.tests.image: the cloud has no image 'missing'" in passed(cluster, cloud)["message"]
    assert view.ready(live(cluster, cloud))
    assert view.ready(cluster.get(*where))
