"""Nodes pull images before pods need them, and follow a changed image."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, ours

from ..facts import ready_again
from ..waiting import until

DAEMONS = ("daemonset", "cloud-images")


def condition(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    """ImagesCached of the cloud."""
    plane = cluster.get(ours("openstackcontrolplane"), cloud.name, "-n", cloud.namespace)
    return next(each for each in plane["status"]["conditions"] if each["type"] == "ImagesCached")


def images(pod: dict[str, Any]) -> set[str]:
    """Images of all containers of a pod's spec."""
    return {each["image"] for each in (*pod.get("initContainers", ()), *pod["containers"])}


def cached(cluster: Kubernetes, cloud: Cloud) -> set[str]:
    """Images that the DaemonSet pulls."""
    return images(cluster.get(*DAEMONS, "-n", cloud.namespace)["spec"]["template"]["spec"])


def is_cached(cluster: Kubernetes, cloud: Cloud, timeout: float = 300) -> None:
    """Wait until all nodes have all images."""
    until("all nodes to have all images", lambda: condition(cluster, cloud)["status"] == "True", timeout, 1)


def test_every_image_of_the_cloud_is_on_its_node(cluster: Kubernetes, cloud: Cloud) -> None:
    is_cached(cluster, cloud)
    pods = cluster.items("pods", "-n", cloud.namespace, "-l", "app.kubernetes.io/managed-by=openstack-operator")
    used = {image for pod in pods for image in images(pod["spec"])}
    assert used <= cached(cluster, cloud)
    assert "1 of 1 nodes" in condition(cluster, cloud)["message"]


def test_the_image_pod_takes_little_memory(cluster: Kubernetes, cloud: Cloud) -> None:
    [pod] = cluster.items("pods", "-n", cloud.namespace, "-l", "app.kubernetes.io/component=images")
    read = ("exec", "-n", cloud.namespace, pod["metadata"]["name"], "-c", "main", "--", "cat", "/proc/1/status")
    status = cluster.kubectl(*read)
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    assert resident < 4 << 10


@pytest.fixture(name="other")
def _other(cluster: Kubernetes) -> str:
    """An image that the node has, and no pod of the cloud uses: that of the operator."""
    deployment = cluster.get("deployment", "openstack-operator", "-n", "openstack-operator")
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


def test_a_changed_image_is_pulled_in_the_moment_of_the_change(cluster: Kubernetes, cloud: Cloud, other: str) -> None:
    before = cached(cluster, cloud)
    assert other not in before

    def choose(image: str | None) -> None:
        patch = json.dumps({"spec": {"keystone": {"client": {"image": image}}}})
        kind = ours("openstackcontrolplane")
        cluster.kubectl("patch", kind, cloud.name, "-n", cloud.namespace, "--type=merge", "-p", patch)

    try:
        choose(other)
        until("the DaemonSet to have the new image", lambda: other in cached(cluster, cloud), 30)
        is_cached(cluster, cloud)
        assert len(cached(cluster, cloud)) == len(before)
    finally:
        choose(None)
    until("the DaemonSet to have the first images", lambda: cached(cluster, cloud) == before, 30)
    is_cached(cluster, cloud)
    ready_again(cluster, cloud)
