"""The labels injector's deployment: two programs, each with the least it needs, and the webhook between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..admission.pod_policies import pod_policy
from ..admission.policy_names import OPERATOR
from ..injector.labels import LABELS
from ..injector.object_names import CERTIFICATE, CERTIFIER, CONFIGURATION, HEALTH, INJECTOR, PORT, WEBHOOK
from ..kube import NAME, Object
from .deployment import CONFINED, POD_CONFINED, VERSIONED, pod_anti_affinity, policies, probe, resources
from .permissions import WATCH, binding, role

UNASKED = ("kube-system", INJECTOR)
"""Namespaces whose pods are bound without asking, labeled some seconds later: what a cluster needs to start, and what
the webhook needs to answer, is not to wait for it."""


def labels_injector() -> list[Object]:
    """Return all objects of the injector, for a cluster with or without the operator. The image's tag is filled in when
    it is deployed.
    """
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": INJECTOR, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        },
        *_rights(),
        # It gives pods the labels of their nodes.
        *pod_policy(f"{INJECTOR}-pods", (INJECTOR, INJECTOR), LABELS),
        # What is in it is not said here, so that applying this again leaves it.
        _object("v1", "Secret", INJECTOR, type="Opaque"),
        _object(
            "v1",
            "Service",
            INJECTOR,
            spec={"selector": _labels(INJECTOR), "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
        ),
        _deployment(INJECTOR, replicas=2, pod=_injector()),
        _object(
            "policy/v1",
            "PodDisruptionBudget",
            INJECTOR,
            spec={"maxUnavailable": 1, "selector": {"matchLabels": _labels(INJECTOR)}},
        ),
        _deployment(CERTIFIER, replicas=1, pod=_certifier()),
        *policies(INJECTOR, INJECTOR, PORT, HEALTH),
        *policies(CERTIFIER, INJECTOR),
        webhook({"service": {"name": INJECTOR, "namespace": INJECTOR}}),
    ]


def webhook(client: Mapping[str, Any]) -> Object:
    """Return the configuration for the API server, which never waits long, and goes on without an answer."""
    other_namespaces = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(UNASKED)}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"], "operations": ["CREATE"]}
    return {
        "apiVersion": CONFIGURATION.api_version,
        "kind": CONFIGURATION.kind,
        "metadata": {"name": INJECTOR},
        "webhooks": [
            {
                "name": WEBHOOK,
                "admissionReviewVersions": ["v1"],
                "clientConfig": dict(client),
                "failurePolicy": "Ignore",
                "namespaceSelector": {"matchExpressions": [other_namespaces]},
                "rules": [{**rule, "scope": "Namespaced"}],
                "sideEffects": "NoneOnDryRun",
                "timeoutSeconds": 1,
            }
        ],
    }


def _rights() -> list[Object]:
    pods = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": list(WATCH)},
        {"apiGroups": [""], "resources": ["pods"], "verbs": [*WATCH, "patch"]},
    ]
    # An account that may write a webhook's configuration can make it see every write: not the program that is called
    # from the network, and this configuration alone.
    configuration_rule = {
        "apiGroups": [CONFIGURATION.group],
        "resources": [CONFIGURATION.plural],
        "verbs": ["get", "patch"],
    }
    secret_rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"], "resourceNames": [INJECTOR]}
    here = {"name": CERTIFIER, "namespace": INJECTOR}
    everywhere = {"name": CERTIFIER}
    return [
        _object("v1", "ServiceAccount", INJECTOR),
        role("ClusterRole", {"name": INJECTOR}, pods),
        binding("ClusterRoleBinding", "ClusterRole", {"name": INJECTOR}, account=INJECTOR, of=INJECTOR),
        _object("v1", "ServiceAccount", CERTIFIER),
        role("ClusterRole", everywhere, [{**configuration_rule, "resourceNames": [INJECTOR]}]),
        binding("ClusterRoleBinding", "ClusterRole", everywhere, account=CERTIFIER, of=INJECTOR),
        role("Role", here, [secret_rule]),
        binding("RoleBinding", "Role", here, account=CERTIFIER, of=INJECTOR),
    ]


def _labels(name: str) -> dict[str, str]:
    return {NAME: name}


def _object(api: str, kind: str, name: str, **body: Any) -> Object:
    metadata = {"name": name, "namespace": INJECTOR, "labels": _labels(name)}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **body}


def _deployment(name: str, *, replicas: int, pod: Object) -> Object:
    template = {"metadata": {"labels": _labels(name) | VERSIONED}, "spec": {"serviceAccountName": name, **pod}}
    selector = {"matchLabels": _labels(name)}
    return _object(
        "apps/v1", "Deployment", name, spec={"replicas": replicas, "selector": selector, "template": template}
    )


def _injector() -> Object:
    options = f"--port={PORT}", f"--health-port={HEALTH}", f"--certificate={CERTIFICATE}"
    return {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 15,
        "affinity": pod_anti_affinity(_labels(INJECTOR)),
        "securityContext": {**POD_CONFINED, "fsGroup": POD_CONFINED["runAsGroup"]},
        "containers": [
            {
                # Measured: 56 MiB without a pod, and 1.3 KiB for each. A cluster has 150,000 at most.
                **_container("inject-labels", *options, memory="96Mi", limit="512Mi"),
                "ports": [{"name": "https", "containerPort": PORT}, {"name": "health", "containerPort": HEALTH}],
                "startupProbe": probe("/healthz", period=1, failures=60),
                "readinessProbe": probe("/readyz", period=5, failures=2),
                "livenessProbe": probe("/healthz", period=10, failures=3),
                "volumeMounts": [{"name": "certificate", "mountPath": CERTIFICATE, "readOnly": True}],
            }
        ],
        "volumes": [{"name": "certificate", "secret": {"secretName": INJECTOR, "defaultMode": 0o440}}],
    }


def _certifier() -> Object:
    return {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 15,
        "securityContext": POD_CONFINED,
        "containers": [_container("certify-injector", memory="64Mi", limit="256Mi")],
    }


def _container(command: str, *options: str, memory: str, limit: str) -> Object:
    return {
        "name": command,
        "image": f"{OPERATOR}:latest",
        "imagePullPolicy": "IfNotPresent",
        "args": [command, "--log-format=json", *options],
        "resources": resources("10m", memory, limit),
        "securityContext": CONFINED,
    }
