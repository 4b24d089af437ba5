"""Images are pulled by digest and with a login, and a pod without one says what it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud import deploy
from tools.cloud.session import Cloud
from tools.cloud.view import conditions, ready
from tools.localcluster import cluster as embedded
from tools.localcluster.kubernetes import Kubernetes, module, ours
from tools.localcluster.layout import Cluster
from tools.localcluster.registry import Registry

from ..conftest import Report
from ..waiting import until

STRANGERS = "strangers"
"""A namespace without a login."""
VALKEY = (ours("valkey"), "cache", "-n", STRANGERS)
_REQUEST = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+) [^"]*" (?P<status>\d+) .*"(?P<agent>[^"]*)"$', re.MULTILINE)


def requests(registry: Registry, **wanted: str) -> list[str]:
    """Paths that the registry was asked for, of requests of these methods, statuses and programs (patterns)."""
    return [
        found["path"]
        for found in _REQUEST.finditer(registry.log.read_text())
        if all(re.match(pattern, found[name]) for name, pattern in wanted.items())
    ]


def test_every_image_of_the_cloud_was_pulled_by_its_digest(
    cluster: Kubernetes, cloud: Cloud, registry: Registry, report: Report
) -> None:
    images = _images(cluster.items("pods", "-n", cloud.namespace))
    assert images
    unpinned = [image for image in images if not re.fullmatch(rf"{cluster.registry}/\S+@sha256:[0-9a-f]+", image)]
    assert unpinned == []
    manifests = requests(registry, status="200", agent="containerd/")
    missed = [image for image in images if not any(path.endswith(image.partition("@")[2]) for path in manifests)]
    assert missed == []
    report.add(pulled_images=len(images), seconds_to_ready=cloud.seconds)


def test_a_node_knows_them_by_their_digests(cluster: Kubernetes, cloud: Cloud) -> None:
    images = [image.split("@") for image in _images(cluster.items("pods", "-n", cloud.namespace))]
    present = {(name, digest) for _, name, digest in embedded.images(Cluster())}
    pulled = {(f"{name.rpartition(':')[0]}@{digest}", digest) for name, digest in images}
    assert pulled
    assert pulled <= present


def _images(pods: list[dict[str, Any]]) -> set[str]:
    return {each["image"] for pod in pods for each in pod["spec"]["containers"]}


def test_the_operator_runs_from_the_registry(cluster: Kubernetes, stood: object) -> None:
    del stood
    pods = cluster.items("pods", "-n", deploy.OPERATOR_NAMESPACE)
    assert pods
    assert all(image.startswith(f"{cluster.registry}/operator:") for image in _images(pods))


def test_a_second_push_sends_nothing(cluster: Kubernetes, registry: Registry) -> None:
    assert cluster.login
    before = requests(registry, method="POST|PUT|PATCH")
    module("images", "push", cluster.registry, "operator", "keystone", environment=cluster.login.environment())
    assert requests(registry, method="POST|PUT|PATCH") == before


@pytest.fixture(scope="module")
def stranger(stood: tuple[Any, Cloud]) -> Iterator[Kubernetes]:
    """The cluster, with a Valkey in a namespace without a login; its image is in the registry and on no node."""
    cluster: Kubernetes = stood[0].cluster
    assert cluster.login
    module("images", "push", cluster.registry, "valkey", environment=cluster.login.environment())
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": STRANGERS}}
    valkey = {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "Valkey",
        "metadata": {"name": "cache", "namespace": STRANGERS},
        "spec": {"retention": "Delete"},
    }
    cluster.apply(namespace, valkey)
    yield cluster
    cluster.kubectl("delete", *VALKEY, "--timeout=120s", timeout=130)
    cluster.kubectl("delete", "namespace", STRANGERS, "--timeout=120s", timeout=130)


def test_a_pod_without_the_login_is_refused_and_its_condition_says_why(
    stranger: Kubernetes, registry: Registry, report: Report
) -> None:
    def refused() -> str | None:
        condition = conditions(stranger.get(*VALKEY)).get("Ready", {})
        return condition["message"] if condition.get("reason") == "ImagePullFailed" else None

    message = until("the condition to name the registry", refused, 120)
    report.add(pull_without_login=message)
    assert "log in to its registry: create a Secret of type kubernetes.io/dockerconfigjson" in message
    assert "imagePullSecrets of the ServiceAccount default" in message
    assert any("/valkey/manifests/" in path for path in requests(registry, status="401", agent="containerd/"))


def test_with_the_login_it_starts(stranger: Kubernetes) -> None:
    """What the condition says to do is enough."""
    assert stranger.login
    stranger.apply(*stranger.login.objects(STRANGERS))
    stranger.kubectl("delete", "pods", "--all", "-n", STRANGERS, "--wait=false")
    until("Valkey to be Ready", lambda: ready(stranger.get(*VALKEY)), 180)
