"""The labels injector as pods: what a container is told of its node, whatever of the injector runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud import deploy
from tools.localcluster.kubernetes import ROOT, Kubernetes, module

from ..waiting import until

NAMESPACE = "labels"
ITS = "labels-injector"
ZONE, BLOCK, NAME = (
    "topology.kubernetes.io/zone",
    "kubernetes.metal.cloud.sap/bb",
    "kubernetes.metal.cloud.sap/name",
)


@pytest.fixture(scope="module")
def injector(stood: tuple[Any, Any], request: pytest.FixtureRequest) -> Iterator[Kubernetes]:
    """The injector, rolled out, and two nodes in a zone each."""
    cluster: Kubernetes = stood[0].cluster
    image = json.loads(module("images", "list"))["operator"]
    found = deploy.documents(ROOT / "deploy" / "labels-injector.yaml")
    for each in found:
        if each["kind"] == "Deployment":
            each["spec"]["template"]["spec"]["containers"][0]["image"] = image
    for number, node in enumerate(_nodes(cluster)):
        cluster.kubectl("label", "node", node, f"{ZONE}=zone-{number}", f"{BLOCK}=bb-{number}", "--overwrite")
    cluster.apply(*found, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for name in (ITS, f"{ITS}-certifier"):
        cluster.kubectl("rollout", "status", "-n", ITS, f"deployment/{name}", "--timeout=120s", timeout=130)
    until("the webhook to have its authority", lambda: _certified(cluster), 60, 1)
    yield cluster
    cluster.kubectl("delete", "namespace", NAMESPACE, ITS, "--timeout=120s", timeout=130)


def _certified(cluster: Kubernetes) -> bool:
    if not cluster.exists("validatingwebhookconfigurations", ITS):
        return False
    found = cluster.get("validatingwebhookconfigurations", ITS)["webhooks"]
    return all(each["clientConfig"].get("caBundle") for each in found)


def _nodes(cluster: Kubernetes) -> list[str]:
    return sorted(node["metadata"]["name"] for node in cluster.items("nodes"))


def _pod(name: str, image: str, **spec: Any) -> dict[str, Any]:
    """A pod that prints the zone it was told of when it started."""
    zone = {"name": "ZONE", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{ZONE}']"}}}
    main = {"name": "main", "image": image, "command": ["sh", "-c", "echo in=$ZONE; sleep 3600"], "env": [zone]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 0, **spec},
    }


def _labels(cluster: Kubernetes, name: str) -> dict[str, str]:
    return cluster.get("pod", name, "-n", NAMESPACE)["metadata"].get("labels", {})


def _told(cluster: Kubernetes, name: str) -> str:
    until(f"{name} to run", lambda: cluster.get("pod", name, "-n", NAMESPACE)["status"].get("phase") == "Running", 60)
    return until(f"{name} to speak", lambda: cluster.kubectl("logs", name, "-n", NAMESPACE).strip(), 30)


@pytest.fixture
def image() -> str:
    return json.loads(module("images", "list"))["operator"]


def test_a_container_knows_its_zone_from_its_first_moment(injector: Kubernetes, image: str) -> None:
    checks = 0
    for number, node in enumerate(_nodes(injector)):
        injector.apply(_pod(f"bound-{number}", image, nodeSelector={"kubernetes.io/hostname": node}))
        checks += 1
        assert _told(injector, f"bound-{number}") == f"in=zone-{number}"
        found = _labels(injector, f"bound-{number}")
        assert (found[ZONE], found[BLOCK], found[NAME]) == (f"zone-{number}", f"bb-{number}", node)
    assert checks


def test_pods_follow_their_node(injector: Kubernetes) -> None:
    node = _nodes(injector)[0]
    injector.kubectl("label", "node", node, f"{BLOCK}=bb-moved", "--overwrite")
    until("the pod to have it", lambda: _labels(injector, "bound-0").get(BLOCK) == "bb-moved", 30)
    injector.kubectl("label", "node", node, f"{BLOCK}-")
    until("the pod to have none", lambda: BLOCK not in _labels(injector, "bound-0"), 30)


def test_without_it_pods_start_and_are_labeled_later(injector: Kubernetes, image: str) -> None:
    injector.kubectl("scale", "-n", ITS, f"deployment/{ITS}", "--replicas=0")
    gone = ("pods", "-n", ITS, "-l", f"app.kubernetes.io/name={ITS}")
    until("its pods to be gone", lambda: not injector.items(*gone), 60)
    began = time.monotonic()
    injector.apply(_pod("late", image, nodeSelector={"kubernetes.io/hostname": _nodes(injector)[1]}))
    assert _told(injector, "late").startswith("in=")
    assert time.monotonic() - began < 60, "nobody waits for a webhook that is away"
    injector.kubectl("scale", "-n", ITS, f"deployment/{ITS}", "--replicas=1")
    until("the pod to be labeled", lambda: _labels(injector, "late").get(BLOCK) == "bb-1", 90)
