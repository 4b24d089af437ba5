"""A node that gets another group of compute nodes: Kubernetes itself ends one nova-compute before the next one starts.

The controller of DaemonSets and the scheduler are real. No kubelet runs, so that a pod ends when the test says so.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import Object
from openstack_operator.registry import ACTUATORS, SERVICES
from tests.field_effects import RELEASES
from tools.localcluster import apiserver, build

from .harness import eventually

NODE = "n1"
ROOM = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "200Gi"}
GROUPS = [{"name": name, "nodeSelector": {"kind": name}} for name in ("gpu", "pinned")]
CONTROLLERS = "daemonset-controller,garbage-collector-controller,serviceaccount-controller"


class Kubernetes:
    """An API server whose controllers and scheduler run, with one node and no kubelet."""

    def __init__(self, kubeconfig: Path) -> None:
        self._command = [str(build.binary("kubernetes", "kubectl")), f"--kubeconfig={kubeconfig}"]

    def __call__(self, *words: str, stdin: str | None = None) -> str:
        """Return what kubectl prints."""
        command = [*self._command, *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout

    def apply(self, objects: list[Object]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": objects}
        self("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(listed))

    def label(self, label: str) -> None:
        self("label", "node", NODE, label, "--overwrite")

    def pods(self) -> dict[str, str]:
        """Return the state of each DaemonSet's pods: waits, runs or ends."""
        states: dict[str, str] = {}
        for pod in json.loads(self("get", "pods", "-n", "openstack", "-o", "json"))["items"]:
            component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
            state = "runs" if pod["spec"].get("nodeName") else "waits"
            if state == "waits" and not _was_tried(pod):
                state = "new"
            states[component] = "ends" if "deletionTimestamp" in pod["metadata"] else state
        return states

    async def is_observed(self) -> bool:
        """Return True if the controller of DaemonSets has done what their specs say."""
        live = json.loads(self("get", "daemonsets", "-n", "openstack", "-o", "json"))["items"]
        return all(each["metadata"]["generation"] == each["status"].get("observedGeneration") for each in live)

    async def until(self, expected: Mapping[str, str]) -> None:
        async def is_so() -> bool:
            return self.pods() == expected

        try:
            await eventually(is_so)
        except TimeoutError:
            assert self.pods() == expected

    def end(self, component: str) -> None:
        """Let the pod of a component that ends be gone, as the kubelet says it."""
        selector = f"app.kubernetes.io/component={component}"
        self("delete", "pod", "-n", "openstack", "-l", selector, "--force", "--grace-period=0")


def _was_tried(pod: Object) -> bool:
    """Return True if the scheduler has looked for a node and found that another pod is in the way."""
    conditions = pod["status"].get("conditions") or ()
    return any("anti-affinity" in each.get("message", "") for each in conditions)


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[Kubernetes]:
    try:
        build.binary("kubernetes", "kube-scheduler")
    except build.BuildError as error:
        pytest.skip(str(error))
    with apiserver.api_server(tmp_path, controllers=CONTROLLERS, scheduler=True) as kubeconfig:
        yield Kubernetes(kubeconfig)


def daemon_sets(*groups: Mapping[str, Any]) -> list[Object]:
    """Return the DaemonSets of nova-compute, in the order in which the operator writes them."""
    manifest = {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "Nova",
        "metadata": {"name": "nova", "namespace": "openstack"},
        "spec": {"compute": {"groups": list(groups)}},
    }
    planned = next(OfflineCluster(SERVICES, ACTUATORS, RELEASES).render([manifest], "openstack"))
    return [each for each in planned.objects if each["kind"] == "DaemonSet" and _component(each).endswith("-compute")]


def _component(obj: Object) -> str:
    return str(obj["metadata"]["labels"]["app.kubernetes.io/component"])


@pytest.mark.seconds
async def test_a_node_never_has_two_nova_computes(kubernetes: Kubernetes) -> None:
    labels = {"openstack-compute-node": "enabled", "kubernetes.io/hostname": NODE}
    node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE, "labels": labels}}
    kubernetes.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openstack"}}, node])
    status = {"allocatable": ROOM, "capacity": ROOM, "conditions": [{"type": "Ready", "status": "True"}]}
    kubernetes("patch", "node", NODE, "--subresource=status", "-p", json.dumps({"status": status}))
    kubernetes("patch", "node", NODE, "--type=merge", "-p", json.dumps({"spec": {"taints": None}}))
    kubernetes.apply(daemon_sets())
    await kubernetes.until({"cell1-compute": "runs"})
    uid = kubernetes("get", "pods", "-n", "openstack", "-o", "jsonpath={.items[*].metadata.uid}")

    kubernetes.apply(daemon_sets(*GROUPS))
    await eventually(kubernetes.is_observed)
    assert kubernetes("get", "pods", "-n", "openstack", "-o", "jsonpath={.items[*].metadata.uid}") == uid

    for label, old, new in (
        ("kind=gpu", "cell1-compute", "cell1-gpu-compute"),
        ("kind=pinned", "cell1-gpu-compute", "cell1-pinned-compute"),
        ("kind-", "cell1-pinned-compute", "cell1-compute"),
        ("kind=gpu", "cell1-compute", "cell1-gpu-compute"),
    ):
        kubernetes.label(label)
        await kubernetes.until({old: "ends", new: "waits"})
        kubernetes.end(old)
        await kubernetes.until({new: "runs"})

    # The group is removed: the operator changes the other DaemonSets and deletes that of the group.
    kubernetes.apply(daemon_sets(GROUPS[1]))
    kubernetes("delete", "daemonset", "-n", "openstack", "nova-cell1-gpu-compute", "--wait=false")
    await kubernetes.until({"cell1-gpu-compute": "ends", "cell1-compute": "waits"})
    kubernetes.end("cell1-gpu-compute")
    await kubernetes.until({"cell1-compute": "runs"})
