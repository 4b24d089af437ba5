"""A Prometheus that its operator runs, which reads every monitor and rule of the cluster, and the kubelets."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tools.localcluster.kubernetes import Kubernetes
from tools.operators import build
from tools.operators.catalog import OPERATORS

from ..waiting import until

NAMESPACE = "monitoring"
_NAME, _ACCOUNT = "k8s", "prometheus-k8s"
"""As docs/how-to/read-logs-and-metrics.md names the account."""
_API = f"/api/v1/namespaces/{NAMESPACE}/services/prometheus-operated:9090/proxy/api/v1"

_KUBELETS = "kubelets"
_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"

Object = dict[str, Any]


def start(cluster: Kubernetes) -> None:
    """It is Available."""
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    cluster.apply(*_access(), _kubelets(), _prometheus())
    name = f"prometheuses.monitoring.coreos.com/{_NAME}"
    cluster.kubectl("-n", NAMESPACE, "wait", name, "--for=condition=Available", "--timeout=180s", timeout=190)


def down(cluster: Kubernetes, namespace: str) -> dict[str, str]:
    """Monitors of a namespace, as `podMonitor/NAMESPACE/NAME`, that are not read: without a target, or with one that
    does not answer, and what Prometheus says of it.
    """
    read = _targets(cluster)
    monitors = cluster.items("podmonitors.monitoring.coreos.com", "-n", namespace)
    names = [f"podMonitor/{namespace}/{each['metadata']['name']}" for each in monitors]
    assert names, "no monitor is there"
    return {name: fault for name in names if (fault := _fault([each for each in read if _pool(each) == name]))}


def groups(cluster: Kubernetes, namespace: str) -> list[Object]:
    """Groups of rules of a namespace's PrometheusRules, as Prometheus has loaded them."""
    loaded: list[Object] = _asked(cluster, "rules")["groups"]
    return [each for each in loaded if f"/{namespace}-" in each["file"]]


def alerts(cluster: Kubernetes, namespace: str) -> dict[str, str]:
    """Alerts of a namespace's rules: name → state (`inactive`, `pending` or `firing`)."""
    return {rule["name"]: rule["state"] for group in groups(cluster, namespace) for rule in group["rules"]}


def _asked(cluster: Kubernetes, what: str) -> Any:
    answer = json.loads(cluster.kubectl("get", "--raw", f"{_API}/{what}"))
    assert answer["status"] == "success", answer
    return answer["data"]


def _targets(cluster: Kubernetes) -> list[Object]:
    until("Prometheus to read its targets", lambda: _asked(cluster, "targets?state=active")["activeTargets"], 60, 1)
    active: list[Object] = _asked(cluster, "targets?state=active")["activeTargets"]
    return active


def _pool(target: Object) -> str:
    """A pool is one endpoint of a monitor: podMonitor/NAMESPACE/NAME/0."""
    return str(target["scrapePool"]).rpartition("/")[0]


def _fault(targets: Iterable[Object]) -> str:
    health = {each["scrapeUrl"]: f"{each['health']} {each['lastError']}".strip() for each in targets}
    return "no target" if not health else ", ".join(f"{url}: {said}" for url, said in health.items() if said != "up")


def _prometheus() -> Object:
    every: Object = {}
    chosen = {
        f"{kind}{part}": every
        for kind in ("podMonitor", "serviceMonitor", "rule")
        for part in ("Selector", "NamespaceSelector")
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "Prometheus",
        "metadata": {"name": _NAME, "namespace": NAMESPACE},
        "spec": {
            "image": build.reference(OPERATORS["prometheus"]),
            "imagePullPolicy": "IfNotPresent",
            "version": "v3.16.0",
            "replicas": 1,
            "serviceAccountName": _ACCOUNT,
            "scrapeInterval": "5s",
            "evaluationInterval": "5s",
            "retention": "2h",
            "additionalScrapeConfigs": {"name": _KUBELETS, "key": "scrape.yaml"},
            "resources": {"requests": {"cpu": "10m", "memory": "128Mi"}},
            **chosen,
        },
    }


def _kubelets() -> Object:
    """How to read the kubelets, about volumes, nodes and containers."""
    node = {"source_labels": ["__meta_kubernetes_node_name"], "target_label": "node"}
    jobs = [
        {
            "job_name": f"kubelet{path.replace('/', '-')}",
            "metrics_path": path,
            "scheme": "https",
            "honor_labels": True,
            "authorization": {"credentials_file": _TOKEN},
            "tls_config": {"insecure_skip_verify": True},
            "kubernetes_sd_configs": [{"role": "node"}],
            "relabel_configs": [node],
        }
        for path in ("/metrics", "/metrics/cadvisor")
    ]
    metadata = {"name": _KUBELETS, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"scrape.yaml": json.dumps(jobs)}}


def _access() -> list[Object]:
    rules = [
        {"apiGroups": [""], "resources": ["services", "endpoints", "pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
        # Certificates and tokens are read by Prometheus' operator, which has them in the configuration.
    ]
    account = {"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": NAMESPACE}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT, "namespace": NAMESPACE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": _ACCOUNT},
            "rules": rules,
        },
        *(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": f"{_ACCOUNT}-{role}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [account],
            }
            for role in (_ACCOUNT, "openstack-operator-metrics-reader")
        ),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": "openstack-operator-metrics",
                "namespace": "openstack-operator",
                "labels": {"app.kubernetes.io/name": "openstack-operator"},
            },
            "spec": {
                "selector": {"app.kubernetes.io/name": "openstack-operator"},
                "ports": [{"name": "metrics", "port": 8443, "targetPort": "metrics"}],
            },
        },
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "ServiceMonitor",
            "metadata": {"name": "openstack-operator", "namespace": "openstack-operator"},
            "spec": {
                "selector": {"matchLabels": {"app.kubernetes.io/name": "openstack-operator"}},
                "endpoints": [
                    {
                        "port": "metrics",
                        "honorLabels": True,
                        "scheme": "https",
                        "bearerTokenFile": _TOKEN,
                        "tlsConfig": {"insecureSkipVerify": True},
                    }
                ],
            },
        },
    ]
