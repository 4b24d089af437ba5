"""The bundle, installed by OLM from a catalog that opm serves."""

from __future__ import annotations

from typing import Any

import yaml

from tools.cloud.ways import NAME, Release
from tools.localcluster import registry_login
from tools.localcluster.kubernetes import Kubernetes
from tools.operators import build, install
from tools.operators.catalog import BY_NAME

_CATALOG = "catalog"
_PORT = 50051
SUBSCRIPTION = "subscriptions.operators.coreos.com"
VERSION = "clusterserviceversions.operators.coreos.com"

Object = dict[str, Any]


def subscribe(cluster: Kubernetes, *releases: Release) -> None:
    """Install the bundle of the last release by OLM, or upgrade to it, from a catalog with the bundles of all."""
    if not cluster.exists("deployment", "olm-operator", "-n", "olm"):
        install.install(cluster, [BY_NAME["olm"]])
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": NAME}}
    cluster.apply(registry_login.with_pull_secret(account), *_catalog(releases))
    where = ("-n", NAME)
    cluster.kubectl(*where, "rollout", "restart", f"deployment/{_CATALOG}")
    cluster.kubectl(*where, "rollout", "status", f"deployment/{_CATALOG}", "--timeout=120s", timeout=130)
    cluster.apply(*_subscription())


def unsubscribe(cluster: Kubernetes) -> None:
    """Unsubscribe, and delete the installed version; the definitions stay."""
    where = ("-n", NAME)
    cluster.kubectl(*where, "delete", SUBSCRIPTION, NAME)
    cluster.kubectl(*where, "delete", VERSION, "--all", "--timeout=120s")


def _catalog(releases: tuple[Release, ...]) -> list[Object]:
    """Return a catalog of these releases, served by opm."""
    labels = {"app": _CATALOG}
    metadata = {"name": _CATALOG, "namespace": NAME}
    container = {
        "name": "opm",
        "image": build.reference(BY_NAME["opm"]),
        "args": ["serve", "/configs", "--cache-dir=/tmp/cache", "--cache-enforce-integrity=false"],
        "ports": [{"name": "grpc", "containerPort": _PORT}],
        "readinessProbe": {"tcpSocket": {"port": "grpc"}, "periodSeconds": 2},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            # The folder of a volume has links, which opm does not follow.
            {"name": "catalog", "mountPath": "/configs/catalog.yaml", "subPath": "catalog.yaml"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
    pod = {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "catalog", "configMap": {"name": _CATALOG}}, {"name": "tmp", "emptyDir": {}}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec: Object = {"selector": {"matchLabels": labels}, "template": template}
    data = {"catalog.yaml": yaml.safe_dump_all(_file_based(releases))}
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"name": "grpc", "port": _PORT}]},
        },
    ]


def _file_based(releases: tuple[Release, ...]) -> list[Object]:
    """Return a catalog in the form of files: each version replaces the one before."""
    names = [f"{NAME}.v{each.version}" for each in releases]
    entries = [
        {"name": name, **({"replaces": before} if before else {})}
        for name, before in zip(names, [None, *names[:-1]], strict=True)
    ]
    bundles = [
        {
            "schema": "olm.bundle",
            "name": name,
            "package": NAME,
            "image": f"{each.registry}/{NAME}-bundle:{each.version}",
            "properties": [{"type": "olm.package", "value": {"packageName": NAME, "version": each.version}}],
        }
        for name, each in zip(names, releases, strict=True)
    ]
    return [
        {"schema": "olm.package", "name": NAME, "defaultChannel": "alpha"},
        {"schema": "olm.channel", "name": "alpha", "package": NAME, "entries": entries},
        *bundles,
    ]


def _subscription() -> list[Object]:
    metadata = {"name": NAME, "namespace": NAME}
    return [
        # Of all namespaces, if it names none.
        {"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup", "metadata": metadata, "spec": {}},
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "CatalogSource",
            "metadata": metadata,
            "spec": {
                "sourceType": "grpc",
                "address": f"{_CATALOG}.{NAME}.svc:{_PORT}",
                "secrets": [registry_login.PULL_SECRET],
            },
        },
        {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "Subscription",
            "metadata": metadata,
            "spec": {"channel": "alpha", "name": NAME, "source": NAME, "sourceNamespace": NAME},
        },
    ]
