"""What keeps a pod from starting, made in a cloud that runs."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from openstack_operator import pki
from tools.cloud.proof import until
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours

Object = dict[str, Any]
_TRIES = 5


def change(cluster: Kubernetes, namespace: str, plane: str, spec: Object) -> None:
    """Fields of the control plane's spec, as `kubectl patch --type=merge`."""
    where = (ours("openstackcontrolplane"), plane, "-n", namespace)
    cluster.kubectl("patch", *where, "--type=merge", "-p", json.dumps({"spec": spec}))


def store_expired_certificate(cluster: Kubernetes, namespace: str, name: str) -> None:
    """A Secret with a certificate of an authority, which ended a day ago."""
    then, life = datetime.now(UTC) - timedelta(days=3), timedelta(days=2)
    authority = pki.authority("authority", name, then, life * 3)
    request = pki.Request(common=name, names=frozenset({name}), life=life)
    leaf = pki.issue(authority, request, "leaf", then)
    files = {"ca.crt": authority.cert, "tls.crt": leaf.cert, "tls.key": leaf.key}
    metadata = {"name": name, "namespace": namespace}
    cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": files})


def delete_pod(cluster: Kubernetes, namespace: str, name: str) -> None:
    """Gone at once; what made it makes another one."""
    cluster.kubectl("delete", "pod", name, "-n", namespace, "--now")


def limit_pods(cluster: Kubernetes, namespace: str, count: int | None) -> None:
    """A quota of so many pods; None takes it away."""
    if count is None:
        cluster.kubectl("delete", "resourcequota", "reasons", "-n", namespace, "--ignore-not-found")
        return
    metadata = {"name": "reasons", "namespace": namespace}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": str(count)}}}
    cluster.apply(quota)

    def known() -> bool:
        status = cluster.get("resourcequota", "reasons", "-n", namespace).get("status", {})
        return status.get("hard", {}).get("pods") == str(count) and "pods" in status.get("used", {})

    until("the quota to count", known, 60, 0.3)


def running_pods(cluster: Kubernetes, namespace: str) -> int:
    """Pods a quota counts."""
    pods = cluster.items("pods", "-n", namespace)
    return sum(pod["status"].get("phase") not in {"Succeeded", "Failed"} for pod in pods)


def enforce(cluster: Kubernetes, namespace: str, level: str) -> None:
    """The Pod Security Standard of a namespace; empty takes it away."""
    label = f"pod-security.kubernetes.io/enforce{f'={level}' if level else '-'}"
    cluster.kubectl("label", "namespace", namespace, label, "--overwrite")


def replace_pod(cluster: Kubernetes, namespace: str, name: str, mutate: Callable[[Object], None]) -> None:
    """In the place of a StatefulSet's pod one that differs, as a webhook could make it: the StatefulSet takes it for
    its own. A quota keeps the StatefulSet from being first.
    """
    pod = cluster.get("pod", name, "-n", namespace)
    wanted = copy.deepcopy(pod)
    wanted["metadata"] = {key: pod["metadata"][key] for key in ("name", "namespace", "labels")}
    wanted["spec"].pop("nodeName", None)
    wanted.pop("status")
    mutate(wanted["spec"])
    for _ in range(_TRIES):
        limit_pods(cluster, namespace, running_pods(cluster, namespace) - 1)
        delete_pod(cluster, namespace, name)
        # Until the StatefulSet has tried in vain, and waits for longer.
        time.sleep(3)
        limit_pods(cluster, namespace, None)
        try:
            cluster.kubectl("create", "-f", "-", stdin=json.dumps(wanted))
        except KubeError:
            continue
        return
    raise KubeError(f"the StatefulSet of pod {name} was first {_TRIES} times")
