"""A cluster in the place of any other, with a registry that has two releases of this checkout and no operator yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from tools.cloud import deploy, ways
from tools.cloud.session import MINIMAL, Session, local_cluster
from tools.cloud.stopwatch import Stopwatch
from tools.cloud.view import ready
from tools.cloud.ways import NAME, Release
from tools.localcluster.kubernetes import Kubernetes, module, ours
from tools.localcluster.target import target

from ..conftest import Report, stage
from ..waiting import until

PROBE = "probe"
CACHE = (ours("memcached"), "cache", "-n", PROBE)
_NEXT = "0.1.1"


@dataclass
class Laboratory:
    """The cluster, the two releases, and a Memcached in it, which outlives operators."""

    session: Session
    releases: tuple[Release, Release]

    @property
    def cluster(self) -> Kubernetes:
        return self.session.cluster

    def works(self, release: Release) -> None:
        """The operator of a release runs, and does what is asked: the Memcached gets another number of pods."""
        until(f"the operator {release.version}", lambda: self._version() == release.version, 240)
        ways.await_rollout(self.cluster)
        pods = 3 - self.cluster.get(*CACHE)["spec"].get("replicas", 1)
        patch = json.dumps({"spec": {"replicas": pods}})
        self.cluster.kubectl("patch", *CACHE, "--type=merge", "--patch", patch)
        until("the Memcached to be Ready", lambda: ready(self.cluster.get(*CACHE)), 120)
        assert len(self._pods()) == pods

    def is_uninstalled(self) -> None:
        """The operator is gone, and what it made stays, with its kinds."""
        until("the operator to go", lambda: not self.cluster.exists("deployment", NAME, "-n", NAME), 120)
        assert self.cluster.exists(*CACHE)
        assert all(each["status"]["phase"] == "Running" for each in self._pods())
        self.cluster.kubectl("delete", "namespace", NAME, "--ignore-not-found", "--timeout=120s", timeout=130)

    def _version(self) -> str:
        found = self.cluster.kubectl("get", "deployment", NAME, "-n", NAME, "--ignore-not-found", "-o", "json")
        template = json.loads(found)["spec"]["template"] if found.strip() else {}
        return template.get("metadata", {}).get("labels", {}).get(deploy.VERSION, "")

    def _pods(self) -> list[dict[str, Any]]:
        pods = self.cluster.items("pods", "-n", PROBE)
        return [each for each in pods if "deletionTimestamp" not in each["metadata"]]


@pytest.fixture(scope="package")
def laboratory(report: Report) -> Iterator[Laboratory]:
    if target().kind != "embedded":
        pytest.skip("only the embedded cluster has a registry beside it")
    module("tools.localcluster", "down")
    try:
        watch = Stopwatch(Console())
        cluster = local_cluster(watch, MINIMAL, deploy.images(MINIMAL), 1, pulls=True)
        with watch.step("make two releases"):
            releases = tuple(ways.publish(cluster, deploy.images(MINIMAL), each) for each in (ways.__version__, _NEXT))
        with stage(cluster, "openstack"):
            yield Laboratory(Session(cluster, watch, watch.console), (releases[0], releases[1]))
        report.add(install_steps=watch.steps)
    finally:
        module("tools.localcluster", "down")


def make_memcached(cluster: Kubernetes) -> None:
    """The Memcached, which needs the definitions."""
    assert cluster.login
    cache = {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "Memcached",
        "metadata": {"name": "cache", "namespace": PROBE},
        "spec": {"replicas": 1},
    }
    cluster.apply(*cluster.login.objects(PROBE), cache)
