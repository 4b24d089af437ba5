"""A cluster of three MariaDB members on the embedded Kubernetes, and the doors to it."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tools.cloud import deploy
from tools.cloud.view import ready
from tools.localcluster.kubernetes import KubeError, Kubernetes, existing_cluster, module, ours, started
from tools.localcluster.layout import Cluster

from .mariadb import Door

NAMESPACE, NAME, MEMBERS = "consistency", "galera", 3
_IMAGES = ("operator", "mariadb")
_ROLE = "openstack.k8s.io/role"
_READY = 600.0
"""Seconds that the cluster has to become Ready."""


@dataclass(frozen=True)
class Site:
    """The MariaDB and the machine that it runs on."""

    kubernetes: Kubernetes
    machine: Cluster = field(default_factory=Cluster)

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of the members, in order. Raises KubeError."""
        labels = f"app.kubernetes.io/instance={NAME},app.kubernetes.io/component=server"
        pods = self.kubernetes.items("pods", "-n", NAMESPACE, "-l", labels)
        return sorted(pods, key=lambda pod: pod["metadata"]["name"])

    def primary(self) -> str:
        """Return the member that takes the clients; empty while there is none. Raises KubeError."""
        roles = {pod["metadata"]["name"]: pod["metadata"].get("labels", {}).get(_ROLE) for pod in self.pods()}
        return next((name for name, role in roles.items() if role == "primary"), "")

    def delete_pod(self, pod: str, *, by_force: bool) -> None:
        """Delete a pod; with force, without waiting for its processes to end. Raises KubeError."""
        words = ("--force", "--grace-period=0") if by_force else ()
        self.kubernetes.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--wait=false", *words)

    def await_ready(self, timeout: float = _READY) -> float:
        """Return the seconds until all members and the resource are ready. Raises KubeError if they are not in time."""
        start = time.monotonic()
        while time.monotonic() < start + timeout:
            with contextlib.suppress(KubeError):
                pods = [pod for pod in self.pods() if _is_ready(pod)]
                if len(pods) == MEMBERS and ready(self.kubernetes.get(ours("mariadb"), NAME, "-n", NAMESPACE)):
                    return time.monotonic() - start
            time.sleep(1)
        raise KubeError(f"MariaDB was not Ready within {timeout:.0f} s")

    def password(self) -> str:
        """Return root's password. Raises KubeError."""
        words = ("-o", "jsonpath={.data.root}")
        encoded = self.kubernetes.kubectl("get", "secret", f"{NAME}-credentials", "-n", NAMESPACE, *words)
        return base64.b64decode(encoded).decode()

    def door(self) -> Door:
        """Return the address of the member that takes the clients, as services use it. Raises KubeError."""
        spec = self.kubernetes.get("service", NAME, "-n", NAMESPACE)["spec"]
        return self._exposed("door", spec["selector"], publish=bool(spec.get("publishNotReadyAddresses")))

    def members(self) -> list[Door]:
        """Return the address of each member. Raises KubeError."""
        label = "statefulset.kubernetes.io/pod-name"
        names = [pod["metadata"]["name"] for pod in self.pods()]
        # A member is asked also when it is not ready: it says so itself.
        return [self._exposed(name, {label: name}, publish=True) for name in names]

    def _exposed(self, name: str, selector: dict[str, str], *, publish: bool) -> Door:
        service = f"outside-{name}"
        self.kubernetes.apply(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": service, "namespace": NAMESPACE},
                "spec": {
                    "type": "NodePort",
                    "selector": selector,
                    "ports": [{"port": 3306}],
                    "publishNotReadyAddresses": publish,
                },
            }
        )
        port = self.kubernetes.get("service", service, "-n", NAMESPACE)["spec"]["ports"][0]["nodePort"]
        return Door(name, self.kubernetes.address(), port)

    def facts(self) -> dict[str, str]:
        """Return the version and the settings on which the result depends, by the first member. Raises KubeError."""
        names = ("version", "innodb_flush_log_at_trx_commit", "innodb_snapshot_isolation", "wsrep_sync_wait")
        statement = f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in names)}"
        pod = self.pods()[0]["metadata"]["name"]
        words = ("exec", "-n", NAMESPACE, pod, "-c", "main", "--", "mariadb", "-u", "mysql", "-Ne", statement)
        return dict(zip(names, self.kubernetes.kubectl(*words).strip().split("\t"), strict=True))


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def deployed(tell: Callable[[str], None]) -> Site:
    """Return three members, Ready, on the embedded cluster, which is started first. Raises KubeError."""
    module("tools.localcluster", "build")
    module("images", "build", *_IMAGES)
    kubernetes = started()
    module("images", "load", *_IMAGES)
    deploy.install(kubernetes)
    return _with_members(Site(kubernetes), tell)


def standing(tell: Callable[[str], None]) -> Site:
    """Return three members, Ready, on the cluster that runs already. Raises KubeError."""
    return _with_members(Site(existing_cluster()), tell)


def _with_members(site: Site, tell: Callable[[str], None]) -> Site:
    spec = {"replicas": MEMBERS, "storageSize": "4Gi", "storageClassName": "sized"}
    kind = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "MariaDB"}
    site.kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    site.kubernetes.apply({**kind, "metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec})
    tell(f"{MEMBERS} members Ready after {site.await_ready():.0f} s")
    return site
