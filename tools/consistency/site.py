"""A server of three members on the embedded Kubernetes, and the doors to it."""

from __future__ import annotations

import base64
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tools.cloud import deploy
from tools.cloud.view import ready
from tools.localcluster.kubernetes import KubeError, Kubernetes, existing_cluster, module, ours, started
from tools.localcluster.layout import DEFAULT_NAME, Cluster

from .clients import Door

MEMBERS, NAME = 3, "store"
SIZED = "sized"
"""StorageClass whose volumes lose what is not on the disk when the power is cut."""
_READY = 600.0
"""Seconds that the members have to become Ready."""


@dataclass(frozen=True)
class Site(ABC):
    """The server and the machine that it runs on."""

    kubernetes: Kubernetes
    machine: Cluster = field(default_factory=Cluster)

    kind: ClassVar[str]
    images: ClassVar[Sequence[str]]
    """Besides that of the operator."""
    spec: ClassVar[Mapping[str, Any]]
    port: ClassVar[int]
    component: ClassVar[str] = "server"
    old_version: ClassVar[str] = ""
    """Version from which there is an upgrade to that of the release."""

    @abstractmethod
    def primary(self) -> str:
        """Return the member that leads; empty while there is none. Raises KubeError."""

    @property
    def namespace(self) -> str:
        """Its own: one fault kills all that is in it."""
        return f"consistency-{self.kind.lower()}"

    def deploy(self, tell: Callable[[str], None], version: str = "") -> None:
        """Wait until three members are Ready, created if missing, in a version or that of the release. Raises
        KubeError.
        """
        self.kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self.set_version(version)
        tell(f"{MEMBERS} members Ready after {self.await_ready():.0f} s")

    def set_version(self, version: str) -> None:
        """Ask for a version; if empty, for that of the release. Raises KubeError."""
        kind = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": self.kind}
        metadata = {"name": NAME, "namespace": self.namespace}
        spec = {**self.spec, **({"version": version} if version else {})}
        self.kubernetes.apply({**kind, "metadata": metadata, "spec": spec})

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of the members, in order. Raises KubeError."""
        labels = f"app.kubernetes.io/instance={NAME},app.kubernetes.io/component={self.component}"
        pods = self.kubernetes.items("pods", "-n", self.namespace, "-l", labels)
        return sorted(pods, key=lambda pod: pod["metadata"]["name"])

    def delete_pod(self, pod: str, *, by_force: bool) -> None:
        """Delete a pod; with force, without waiting for its processes to end. Raises KubeError."""
        words = ("--force", "--grace-period=0") if by_force else ()
        self.kubernetes.kubectl("delete", "pod", pod, "-n", self.namespace, "--wait=false", *words)

    def await_ready(self, timeout: float = _READY) -> float:
        """Return the seconds until all members and the resource are ready. Raises KubeError if they are not in time."""
        start = time.monotonic()
        while time.monotonic() < start + timeout:
            with contextlib.suppress(KubeError):
                pods = [pod for pod in self.pods() if _is_ready(pod)]
                resource = self.kubernetes.get(ours(self.kind.lower()), NAME, "-n", self.namespace)
                if len(pods) == MEMBERS and ready(resource):
                    return time.monotonic() - start
            time.sleep(1)
        raise KubeError(f"{self.kind} was not Ready within {timeout:.0f} s")

    def secret(self, name: str, key: str) -> str:
        """Return a value of a Secret. Raises KubeError."""
        words = ("-o", f"jsonpath={{.data.{key}}}")
        encoded = self.kubernetes.kubectl("get", "secret", name, "-n", self.namespace, *words)
        return base64.b64decode(encoded).decode()

    def run(self, pod: str, *command: str) -> str:
        """Return the output of a command in the main container of a member. Raises KubeError."""
        return self.kubernetes.kubectl("exec", "-n", self.namespace, pod, "-c", "main", "--", *command)

    def door(self, port: int = 0) -> Door:
        """Return the address of the member or members that take clients, as services use it. Raises KubeError."""
        spec = self.kubernetes.get("service", NAME, "-n", self.namespace)["spec"]
        publish = bool(spec.get("publishNotReadyAddresses"))
        return self._exposed("door", spec["selector"], port or self.port, publish=publish)

    def members(self, port: int = 0) -> list[Door]:
        """Return the address of each member. Raises KubeError."""
        label = "statefulset.kubernetes.io/pod-name"
        names = [pod["metadata"]["name"] for pod in self.pods()]
        # A member is asked also when it is not ready: it says so itself.
        return [self._exposed(name, {label: name}, port or self.port, publish=True) for name in names]

    def _exposed(self, name: str, selector: dict[str, str], port: int, *, publish: bool) -> Door:
        service = f"outside-{name}-{port}"
        self.kubernetes.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": service, "namespace": self.namespace},
                "spec": {
                    "type": "NodePort",
                    "selector": selector,
                    "ports": [{"port": port}],
                    "publishNotReadyAddresses": publish,
                },
            }
        )
        exposed = self.kubernetes.get("service", service, "-n", self.namespace)["spec"]["ports"][0]
        return Door(name, self.kubernetes.address(), exposed["nodePort"])


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def embedded(images: Sequence[str]) -> Kubernetes:
    """Return the embedded cluster with the operator and these images, started first. Raises KubeError."""
    module("tools.localcluster", "build")
    module("images", "build", "operator", *images)
    kubernetes = started()
    module("images", "load", "operator", *images)
    deploy.install(kubernetes)
    return kubernetes


def standing(machine: Cluster) -> Kubernetes:
    """Return an embedded cluster that runs, with the operator. Raises KubeError if none does."""
    # By its file: kubectl of the embedded kind goes to the cluster of the default name.
    kubernetes = existing_cluster() if machine.name == DEFAULT_NAME else Kubernetes("existing", machine.kubeconfig)
    kubernetes.kubectl("version", "--request-timeout=10s")
    return kubernetes
