"""The operator's own Deployment."""

from __future__ import annotations

from collections.abc import Mapping

from .. import __version__
from ..admission.policy_names import NAMESPACE, OPERATOR
from ..kube import NAME, VERSION, Object, egress

PORT, METRICS_PORT = 8080, 8443
RELEASES = "/etc/openstack-operator/releases"
MEMORY = "512Mi"
"""Limit of the operator's memory: four times what it has with a thousand resources (docs/evidence/performance.md). This
leaves room for several namespaces that take all that a namespace may.
"""
LABELS = {NAME: OPERATOR}
_DISK, _MOST_DISK = "64Mi", "1Gi"
"""Request and limit of what a program writes to the disk of its node: its log, of which the kubelet keeps 50 MiB, and
next to nothing in /tmp."""
VERSIONED = {VERSION: __version__}
"""Of the templates of pods; selectors stay as they are."""
API_SERVER_PORTS = (443, 6443, 8443, 16443)
"""Ports that are open at every address, since an API server may be in no ipBlock. Metadata services of cloud providers
answer at port 80."""
POD_CONFINED: Object = {
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "runAsGroup": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONFINED: Object = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def deployment() -> list[Object]:
    """Return the namespace, the Deployment and its PodDisruptionBudget. The image's tag is filled in when it is
    deployed.
    """
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": OPERATOR, "namespace": NAMESPACE, "labels": LABELS},
            "spec": {
                # One acts, one stands by with its caches filled.
                "replicas": 2,
                "selector": {"matchLabels": LABELS},
                "template": {"metadata": {"labels": LABELS | VERSIONED}, "spec": pod()},
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": OPERATOR, "namespace": NAMESPACE, "labels": LABELS},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}},
        },
        *policies(OPERATOR, NAMESPACE, PORT, METRICS_PORT),
    ]


def policies(name: str, namespace: str, *ports: int) -> list[Object]:
    """Return the NetworkPolicies of one of our programs: clients reach only `ports`, and it reaches API servers and
    `NETWORKS`.
    """
    labels = {NAME: name}
    ingress = {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress"],
        # An empty list is none to the API server, and would be written again with each apply.
        **({"ingress": [{"ports": [tcp(port)]} for port in ports]} if ports else {}),
    }
    return [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": f"{name}-{direction}", "namespace": namespace, "labels": labels},
            "spec": spec,
        }
        for direction, spec in (
            ("ingress", ingress),
            ("egress", egress(labels, [tcp(port) for port in API_SERVER_PORTS])),
        )
    ]


def tcp(port: int) -> Object:
    """Return a port of TCP, as a NetworkPolicy names it."""
    return {"protocol": "TCP", "port": port}


def pod() -> Object:
    """Return the spec of the operator's pod."""
    return {
        "serviceAccountName": OPERATOR,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 15,
        "affinity": pod_anti_affinity(LABELS),
        # The standby leads long before; this is how soon a lost node leaves one without a standby no more.
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{node_state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 30,
            }
            for node_state in ("not-ready", "unreachable")
        ],
        "securityContext": POD_CONFINED,
        "containers": [container()],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            # Another release needs another ConfigMap, not another operator; without one, those in the image serve.
            {"name": "releases", "configMap": {"name": f"{OPERATOR}-releases", "optional": True}},
        ],
    }


def container() -> Object:
    """Return the operator's container."""
    return {
        "name": "operator",
        "image": f"{OPERATOR}:latest",
        "imagePullPolicy": "IfNotPresent",
        "args": [
            "run",
            "--leader-elect",
            "--log-format=json",
            f"--health-port={PORT}",
            f"--metrics-port={METRICS_PORT}",
            f"--releases={RELEASES}",
        ],
        "env": [{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "ports": [{"name": "health", "containerPort": PORT}, {"name": "metrics", "containerPort": METRICS_PORT}],
        # Probed every second until it is ready, so that no client waits for the next of the rarer probes after that.
        # For as long as an API server may be unreachable.
        "startupProbe": probe("/readyz", period=1, failures=600),
        "readinessProbe": probe("/readyz", period=5, failures=2),
        "livenessProbe": probe("/healthz", period=10, failures=3),
        "resources": resources("100m", "160Mi", MEMORY),
        "securityContext": CONFINED,
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  (an emptyDir)
            {"name": "releases", "mountPath": RELEASES, "readOnly": True},
        ],
    }


def resources(cpu: str, memory: str, limit: str) -> Object:
    """Return requests of a container, and limits of its memory and disk."""
    return {
        "requests": {"cpu": cpu, "memory": memory, "ephemeral-storage": _DISK},
        "limits": {"memory": limit, "ephemeral-storage": _MOST_DISK},
    }


def pod_anti_affinity(labels: Mapping[str, str]) -> Object:
    """Return the affinity of pods with these labels: each on another node, if there are enough."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": dict(labels)}}
    return {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]
        }
    }


def probe(path: str, *, period: int, failures: int) -> Object:
    """Return a probe of the port named health, every `period` seconds; `failures` in a row count."""
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 3,
    }
