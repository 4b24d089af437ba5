"""The kinds and their collections in the Kubernetes API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..api import Resource, handle
from ..kube import MANAGED_BY


@dataclass(frozen=True)
class Kind:
    """A kind and its collection in the API."""

    api_version: str
    kind: str
    plural: str
    alias: str = ""
    """Kind that one of ours replaces."""
    operator: str = ""
    """Name of the external operator that serves the kind, if a kind of ours does the same."""
    recreates_children: bool = False
    """True if that operator recreates the children of an object while the object is being deleted."""
    finalizer: str = ""
    """Finalizer by which that operator keeps an object until it has handled the remote side; only of kinds whose remote
    side need not go with the object, so that it is safe to remove the finalizer."""
    superseded_by: str = ""
    """The apiVersion to use instead of this one if the API serves both, which show the same objects."""
    optional: bool = False
    """True if a cluster may lack it, or install it later."""

    @property
    def handle(self) -> str:
        """Identifier of the kind in the engine."""
        return handle(self.api_version, self.kind)

    @property
    def versioned(self) -> str:
        """The handle with the version in it, as kubectl takes it: `ExternalSecret.v1.external-secrets.io`."""
        return ".".join((self.kind, self.version, self.group))

    @property
    def full_name(self) -> str:
        """Unambiguous name for kubectl: `novas.openstack.k8s.io`; the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def optional_role(self) -> str:
        """ClusterRole that grants the operator the kind, if that role is bound only where the kind is used; empty for
        other kinds, which the operator's own role grants.
        """
        return f"{MANAGED_BY}-{_OPTIONAL_ROLES.get(self.group, _C5C3)}" if self.optional else ""

    @property
    def role(self) -> str:
        """Name of the kind in references and labels."""
        return self.alias or self.kind

    @property
    def group(self) -> str:
        """The API group; empty for the core."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version without its group."""
        return self.api_version.rpartition("/")[2]

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """Return the URL path of the collection, of one object, or of its subresource."""
        parts = ["apis" if "/" in self.api_version else "api", self.api_version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, sub) if part]
        return "/" + "/".join(parts)

    @classmethod
    def of(cls, resource: Resource[Any]) -> Kind:
        """Return the kind of one of our own resources."""
        return cls(resource.api_version, resource.kind, resource.plural, resource.alias, optional=resource.on_request)


NAMESPACE = Kind("v1", "Namespace", "namespaces")
POD = Kind("v1", "Pod", "pods")
NODE = Kind("v1", "Node", "nodes")
SECRET = Kind("v1", "Secret", "secrets")
SERVICE = Kind("v1", "Service", "services")
JOB = Kind("batch/v1", "Job", "jobs")
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
DAEMON_SET = Kind("apps/v1", "DaemonSet", "daemonsets")
CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
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
    CLAIM,
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

_SECRETS = "external-secrets.io"
_ROOK, _GATEWAY, _C5C3_MEMCACHED = "ceph.rook.io/v1", "gateway.networking.k8s.io/v1", "memcached.c5c3.io/v1beta1"
_MARIADB, _RABBITMQ, _KORC = "k8s.mariadb.com/v1alpha1", "rabbitmq.com/v1beta1", "openstack.k-orc.cloud"
_EXTERNAL_KINDS = (
    *(Kind(_ROOK, kind, f"{kind.lower()}s") for kind in ("CephCluster", "CephBlockPool", "CephClient")),
    Kind("cert-manager.io/v1", "Certificate", "certificates"),
    Kind(_GATEWAY, "HTTPRoute", "httproutes"),
    Kind(_GATEWAY, "BackendTLSPolicy", "backendtlspolicies"),
    Kind(_MARIADB, "MariaDB", "mariadbs", operator="mariadb-operator"),
    *(Kind(_MARIADB, kind, f"{kind.lower()}s") for kind in ("Database", "User", "Grant")),
    Kind(_RABBITMQ, "RabbitmqCluster", "rabbitmqclusters", operator="rabbitmq-cluster-operator"),
    *(Kind(_RABBITMQ, kind, f"{kind.lower()}s") for kind in ("Vhost", "User", "Permission")),
    Kind(_RABBITMQ, "Policy", "policies"),
    Kind(_C5C3_MEMCACHED, "Memcached", "memcacheds", operator="memcached-operator", recreates_children=True),
    Kind("cache.cs.sap.com/v1alpha1", "Valkey", "valkeys", operator="valkey-operator"),
    *(
        Kind(f"{_KORC}/v1alpha1", kind, f"{kind.lower()}s", operator="k-orc", finalizer=f"{_KORC}/{kind.lower()}")
        for kind in ("Domain", "Project", "Role", "User", "Service")
    ),
    Kind(f"{_SECRETS}/v1", "ExternalSecret", "externalsecrets"),
    Kind(f"{_SECRETS}/v1beta1", "ExternalSecret", "externalsecrets", superseded_by=f"{_SECRETS}/v1"),
    Kind(f"{_SECRETS}/v1alpha1", "PushSecret", "pushsecrets"),
    *(Kind("monitoring.coreos.com/v1", kind, f"{kind.lower()}s") for kind in ("PodMonitor", "PrometheusRule")),
)
_OPTIONAL_ROLES = {
    "cache.cs.sap.com": "valkey-operator",
    "ceph.rook.io": "rook",
    "cert-manager.io": "cert-manager",
    "external-secrets.io": "external-secrets",
    "gateway.networking.k8s.io": "gateway-api",
    "k8s.mariadb.com": "mariadb-operator",
    "memcached.c5c3.io": "memcached-operator",
    "monitoring.coreos.com": "monitoring",
    "openstack.k-orc.cloud": "k-orc",
    "rabbitmq.com": "rabbitmq-operators",
}
"""Project whose role grants the kinds, by API group."""
_C5C3 = "c5c3"
"""The same for our own kinds that are installed on request."""
EXTERNAL_KINDS = tuple(replace(kind, optional=True) for kind in _EXTERNAL_KINDS)
"""Kinds of other operators that a plan may have. A cluster may lack them, or install or remove them later."""


class Catalog:
    """Every kind the engine works with, by apiVersion and kind."""

    def __init__(self, resources: Iterable[Resource[Any]]) -> None:
        definitions = tuple(resources)
        self.resources = tuple(Kind.of(resource) for resource in definitions)
        self.on_nodes = tuple(Kind.of(resource) for resource in definitions if resource.nodes)
        """Kinds whose resources look at Nodes."""
        self.all = (*CHILDREN, *EXTERNAL_KINDS, *self.resources)
        self._by_type = {(kind.api_version, kind.kind): kind for kind in self.all}

    def of(self, obj: Mapping[str, Any]) -> Kind:
        """Return the kind of an object. Raises KeyError for one that is not watched, which no plan may have."""
        return self._by_type[obj["apiVersion"], obj["kind"]]
