"""The operator and a control plane, brought into a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import yaml

from .kubernetes import ROOT, Kubernetes, module

OPERATOR_NAMESPACE = "openstack-operator"
RELEASES = "openstack-operator-releases"

Object = dict[str, Any]


def documents(path: Path) -> list[Object]:
    """The objects of a manifest."""
    return [doc for doc in cast("list[Object | None]", list(yaml.safe_load_all(path.read_text()))) if doc]


def install(cluster: Kubernetes, replicas: int = 1) -> None:
    """Custom resource definitions, least-privilege RBAC, the release data and the operator's Deployment, rolled out."""
    crds = [doc for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")) for doc in documents(path)]
    cluster.apply(*crds)
    cluster.kubectl(
        "wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{c['metadata']['name']}" for c in crds)
    )
    images = json.loads(module("images", "list"))
    cluster.apply(*operator(images["operator"], replicas))
    cluster.kubectl(
        "-n", OPERATOR_NAMESPACE, "rollout", "status", "deployment/openstack-operator", "--timeout=120s", timeout=130
    )


def operator(image: str, replicas: int = 1) -> list[Object]:
    """deploy/operator.yaml and deploy/rbac.yaml with this checkout's image and release data."""
    found = [*documents(ROOT / "deploy" / "rbac.yaml"), *documents(ROOT / "deploy" / "operator.yaml")]
    found.sort(key=lambda doc: doc["kind"] != "Namespace")
    data = {"2025.1.yaml": module("images", "release")}
    for doc in found:
        if doc["kind"] == "Deployment":
            doc["spec"]["replicas"] = replicas
            doc["spec"]["template"]["spec"]["containers"][0]["image"] = image
    release = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RELEASES, "namespace": OPERATOR_NAMESPACE},
        "data": data,
    }
    # The Deployment comes last: its pods would wait for the ConfigMap in a back-off otherwise.
    return [
        *(doc for doc in found if doc["kind"] != "Deployment"),
        release,
        *(d for d in found if d["kind"] == "Deployment"),
    ]


def control_plane(cluster: Kubernetes, sample: Path, namespace: str | None = None) -> Object:
    """Applies a sample, exposed on a node's address where the cluster is on this machine; returns the control plane."""
    found = documents(sample)
    plane = next(doc for doc in found if doc["kind"] == "OpenStackControlPlane")
    if namespace:
        for doc in found:
            doc["metadata"]["name" if doc["kind"] == "Namespace" else "namespace"] = namespace
    if cluster.kind != "existing":
        # The host has no route to ClusterIPs, on purpose; a NodePort on the node's address it reaches.
        plane["spec"]["expose"] = {"type": "NodePort", "host": cluster.address()}
    cluster.apply(*found)
    return plane
