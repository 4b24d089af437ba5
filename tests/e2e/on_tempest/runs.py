"""Runs of the Tempest of a cloud: ordered, waited for, and read."""

from __future__ import annotations

import json
from typing import Any

from tools.cloud import view
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes

from ..outcomes import Outcome
from ..waiting import until
from .expectations import SETS, excluding

TEMPESTS = "tempests.tempest.openstack.c5c3.io"
RUN_NOW = "tempest.openstack.c5c3.io/run-now"
PODS = ("pods", "-l", "openstack.k8s.io/kind=tempest")
TIMEOUT_MINUTES = 90
"""Maximum duration of a set. That of load balancers waits five seconds for each of its changes."""
NO_TEST = "^$"
"""Regular expression that excludes nothing."""
_LONGEST = TIMEOUT_MINUTES * 60 + 300
"""Seconds after which a run has ended: five minutes more than its own timeout."""


def live(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    return cluster.get(TEMPESTS, "tempest", "-n", cloud.namespace)


def passed(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    """The condition TestsPassed."""
    return view.conditions(live(cluster, cloud)).get("TestsPassed", {})


def order(cluster: Kubernetes, cloud: Cloud, word: str) -> None:
    where = ("-n", cloud.namespace, "--overwrite")
    cluster.kubectl("annotate", TEMPESTS, "tempest", f"{RUN_NOW}={word}", *where)


def change(cluster: Kubernetes, cloud: Cloud, **tempest: Any) -> None:
    """The control plane has its Tempest say so, and nothing runs yet."""
    patch = json.dumps({"spec": {"tempest": tempest}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", cloud.namespace, "--type=merge", "-p", patch)


def logged(cluster: Kubernetes, cloud: Cloud) -> str:
    """The log of the one run whose pod is there."""
    (pod,) = cluster.items(*PODS, "-n", cloud.namespace)
    return cluster.kubectl("logs", pod["metadata"]["name"], "-n", cloud.namespace)


def run(cluster: Kubernetes, cloud: Cloud, name: str, word: str = "", **tempest: Any) -> Outcome:
    """Return the outcome of a run of a set with these fields, ordered by a word of its own, or else by the name."""
    return _run(cluster, cloud, word or name, SETS[name], excluding(), **tempest)


def run_excluded(cluster: Kubernetes, cloud: Cloud) -> Outcome:
    """Return the outcome of a run of the tests that no set has."""
    return _run(cluster, cloud, "excluded", excluding(), NO_TEST)


def _run(cluster: Kubernetes, cloud: Cloud, word: str, include: str, exclude: str, **tempest: Any) -> Outcome:
    before = live(cluster, cloud).get("status", {}).get("lastRun")
    tests = {"includeRegex": include, "excludeRegex": exclude}
    change(cluster, cloud, tests=tests, **tempest)

    def has_tests() -> bool:
        tempest = live(cluster, cloud)
        return tests.items() <= tempest["spec"]["tests"].items() and view.ready(tempest)

    until("the tests in Tempest's configuration", has_tests, 120, 1, stages=())
    order(cluster, cloud, word)
    until(
        "the end of the run",
        lambda: live(cluster, cloud)["status"].get("lastRun", before) != before,
        _LONGEST,
        5,
        stages=(),
    )
    return Outcome.of(logged(cluster, cloud))
