"""The cluster and the cloud that scenarios act on."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tools.cloud import view
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours
from tools.localcluster.layout import Cluster

from .lists import Lists

Object = dict[str, Any]
T = TypeVar("T")
OPERATOR = "openstack-operator"
OURS = "app.kubernetes.io/managed-by=openstack-operator"
_EXEC_TIMEOUT = 30.0


@dataclass(frozen=True)
class Site:
    """A cloud on the embedded cluster."""

    kubernetes: Kubernetes
    machine: Cluster = field(default_factory=Cluster)
    namespace: str = "openstack"
    plane: str = "cloud"

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 60) -> str:
        """Return the standard output of kubectl. Raises KubeError, soon if the API server does not answer."""
        return self.kubernetes.kubectl("--request-timeout=10s", *arguments, stdin=stdin, timeout=timeout)

    def items(self, *arguments: str, namespace: str | None = None) -> list[Object]:
        """Return the objects of a list in the cloud's namespace, or another."""
        return json.loads(self.kubectl("get", *arguments, "-n", namespace or self.namespace, "-o", "json"))["items"]

    def watched(self) -> list[Object]:
        """Return pods and resources of the cloud's namespace. Raises KubeError."""
        if self.kubernetes.kubeconfig is None:
            return self.items("openstack,pods")
        return self.lists.watched(self.namespace, lambda item: not _trouble(item))

    @cached_property
    def lists(self) -> Lists:
        """The API server, asked over one connection."""
        return Lists(self.kubernetes.kubeconfig or Path())

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """Return an object. Raises KubeError if there is none."""
        return json.loads(self.kubectl("get", kind, name, "-n", namespace or self.namespace, "-o", "json"))

    def pods(self, selector: str = OURS, namespace: str | None = None) -> list[Object]:
        """Return pods that are to keep running: none of a job, none that is being deleted."""
        pods = self.items("pods", "-l", selector, namespace=namespace)
        return [pod for pod in pods if lasting(pod)]

    def members(self, component: str) -> list[Object]:
        """Return the pods of a StatefulSet by its name, in order."""
        pods = [pod for pod in self.pods() if pod["metadata"]["name"].rpartition("-")[0] == component]
        return sorted(pods, key=lambda pod: pod["metadata"]["name"])

    def run(self, pod: str, *command: str, container: str = "", stdin: str | None = None) -> str:
        """Return the standard output of a command in a pod. Raises KubeError when it fails."""
        chosen = ("-c", container) if container else ()
        arguments = ("exec", *(("-i",) if stdin else ()), "-n", self.namespace, pod, *chosen, "--", *command)
        return self.kubernetes.kubectl(*arguments, stdin=stdin, timeout=_EXEC_TIMEOUT)

    def secret(self, name: str) -> dict[str, str]:
        """Return a Secret's values, decoded."""
        data = self.get("secret", name).get("data", {})
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def patch(self, spec: Object) -> None:
        """Merge a patch into the control plane's spec."""
        body = json.dumps({"spec": spec})
        kind = ours("openstackcontrolplane")
        self.kubectl("patch", kind, self.plane, "-n", self.namespace, "--type=merge", "-p", body)

    def leader(self, *, other_than: str = "") -> str:
        """Return the operator's pod that leads. Raises KubeError if none does, or only the pod `other_than`."""
        lease = self.get("lease", OPERATOR, OPERATOR)
        holder = lease["spec"].get("holderIdentity", "")
        for name in names(self.pods(f"app.kubernetes.io/name={OPERATOR}", OPERATOR)):
            if holder.startswith(name) and name != other_than:
                return name
        raise KubeError(f"no pod of the operator leads: the lease is held by {holder or 'nobody'}")

    def troubles(self) -> dict[str, str]:
        """Return the pods, resources and the control plane that are not well, each with the reason; all in one look."""
        try:
            listed = self.watched()
        except KubeError as error:
            return {"kube-apiserver": str(error).strip().splitlines()[-1]}
        reasons = {f"{item['kind']}/{item['metadata']['name']}": _trouble(item) for item in listed}
        return {name: why for name, why in reasons.items() if why}

    def inside(self, node: str, *command: str, timeout: float = 120) -> str:
        """Return the standard output of a command in a node's own namespaces. Raises KubeError when it fails."""
        from tools.localcluster.cluster import command_in  # noqa: PLC0415  # it needs root, which reports do not

        result = subprocess.run(
            command_in(self.machine, node, *command), capture_output=True, text=True, timeout=timeout, check=False
        )
        if result.returncode:
            raise KubeError(f"{node}: {' '.join(command)}: {(result.stderr or result.stdout).strip()[-500:]}")
        return result.stdout


def _trouble(item: Object) -> str:
    """Return why a pod or resource is not as it should be; empty if it is."""
    if item["kind"] == "Pod":
        return item["status"].get("phase", "no status") if lasting(item) and not ready(item) else ""
    if item["metadata"].get("deletionTimestamp"):
        return "being deleted"
    return "" if view.ready(item) else view.conditions(item).get("Ready", {}).get("message") or "no status"


def lasting(pod: Object) -> bool:
    """Return True if a pod is to keep running."""
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", [])}
    ended = pod["status"].get("phase") in {"Succeeded", "Failed"}
    return "Job" not in owners and not ended and "deletionTimestamp" not in pod["metadata"]


def ready(pod: Object) -> bool:
    """Return True if a pod's condition Ready is True."""
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def names(pods: Sequence[Object]) -> list[str]:
    """Return the names of pods."""
    return [pod["metadata"]["name"] for pod in pods]


def until(event: str, look: Callable[[], T | None], timeout: float, pause: float = 1.0) -> T:
    """Return the first true answer of `look`, whose KubeErrors count as none. Raises KubeError naming `event`."""
    deadline, last = time.monotonic() + timeout, ""
    while time.monotonic() < deadline:
        try:
            if answer := look():
                return answer
        except KubeError as error:
            last = f" ({str(error).strip()[-300:]})"
        time.sleep(pause)
    raise KubeError(f"{event}: not within {timeout:.0f} s{last}")
