"""The kinds and their collections in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...api import Resource
from ...kube import MANAGED_BY
from ...plan import Kind

NAMESPACE = Kind("v1", "Namespace", "namespaces")
POD = Kind("v1", "Pod", "pods")
NODE = Kind("v1", "Node", "nodes")
SECRET = Kind("v1", "Secret", "secrets")
SERVICE = Kind("v1", "Service", "services")
JOB = Kind("batch/v1", "Job", "jobs")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
DAEMON_SET = Kind("apps/v1", "DaemonSet", "daemonsets")
VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
TOKEN_REVIEW = Kind("authentication.k8s.io/v1", "TokenReview", "tokenreviews")
ACCESS_REVIEW = Kind("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
UNFENCED = frozenset({LEASE, TOKEN_REVIEW, ACCESS_REVIEW})
"""Kinds that a replica may write while it does not lead. The API server does not store reviews: they are questions."""
EVENT = Kind("v1", "Event", "events")
"""Of the core group, whose field selectors are documented. events.k8s.io refuses `lastTimestamp` and `count`, by which
tools sort and count Events.
"""
WARNING = EVENT
"""The kind by which Events are read."""

CHILDREN = (
    SECRET,
    VOLUME_CLAIM,
    DEPLOYMENT,
    STATEFUL_SET,
    DAEMON_SET,
    JOB,
    Kind("batch/v1", "CronJob", "cronjobs"),
    SERVICE,
    Kind("v1", "ConfigMap", "configmaps"),
    Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers"),
    Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies"),
    Kind("networking.k8s.io/v1", "Ingress", "ingresses"),
)
"""Kinds a plan may have besides resources of ours. Each is watched and needs its line of RBAC, so the list has only
kinds that a service makes."""


def optional_role(kind: Kind) -> str:
    """Return the ClusterRole that grants the operator the kind, if that role is bound only where the kind is used;
    empty for other kinds, which the operator's own role grants.
    """
    return f"{MANAGED_BY}-{kind.project}" if kind.optional else ""


class Catalog:
    """Every kind the engine works with, by apiVersion and kind."""

    def __init__(self, resources: Iterable[Resource[Any]], external: Iterable[Kind] = ()) -> None:
        """Take our own resources, and the kinds of other projects that plans may have."""
        definitions = tuple(resources)
        self.external = tuple(external)
        self.definitions = definitions
        """Our own resources, as the operator serves them."""
        self.resources = tuple(Kind.of(resource) for resource in definitions)
        self.on_nodes = tuple(Kind.of(resource) for resource in definitions if resource.nodes)
        """Kinds whose resources look at Nodes."""
        self.all = (*CHILDREN, *self.external, *self.resources)
        self._by_type = {(kind.api_version, kind.kind): kind for kind in self.all}
        self.types = frozenset(self._by_type)
        """All of them by apiVersion and kind."""

    def of(self, obj: Mapping[str, Any]) -> Kind:
        """Return the kind of an object. Raises KeyError for one that is not watched, which no plan may have."""
        return self._by_type[obj["apiVersion"], obj["kind"]]
