"""Where each kind lives in the Kubernetes API."""

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
    """The kind whose place one of ours takes."""
    by: str = ""
    """The operator of others that does what it says, where one of ours does the same."""
    remade: bool = False
    """Whether that one goes on making what belongs to an object while the object goes."""
    finalizer: str = ""
    """By what that operator keeps an object until it has seen to the thing out there, of kinds of which plans make
    nothing that is to go with its object: taking it off leaves nothing undone."""
    newer: str = ""
    """The apiVersion to take in place of this one where the API serves both, which show the same objects."""
    optional: bool = False
    """Whether a cluster may lack it, or come to have it later."""

    @property
    def handle(self) -> str:
        """What the engine tells it apart by."""
        return handle(self.api_version, self.kind)

    @property
    def versioned(self) -> str:
        """The handle with the version in it, as kubectl takes it: `ExternalSecret.v1.external-secrets.io`."""
        return ".".join((self.kind, self.version, self.group))

    @property
    def full_name(self) -> str:
        """What kubectl takes for no other kind: `novas.openstack.k8s.io`; the plural alone in the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def optional_role(self) -> str:
        """The ClusterRole that grants the operator the kind, of one whose role is bound only where it is used; empty
        for others, which the operator's own role grants.
        """
        return f"{MANAGED_BY}-{_OPTIONAL_ROLES.get(self.group, _C5C3)}" if self.optional else ""

    @property
    def role(self) -> str:
        """What references and labels call it."""
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
        """The URL path of the collection, of one object, or of its subresource."""
        parts = ["apis" if "/" in self.api_version else "api", self.api_version]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, sub) if part]
        return "/" + "/".join(parts)

    @classmethod
    def of(cls, resource: Resource[Any]) -> Kind:
        """The kind of one of our own resources."""
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
"""What a replica may write that does not lead. The API server keeps no reviews: they are questions."""
EVENT = Kind("v1", "Event", "events")
"""Of the core group, whose field selectors are documented. events.k8s.io refuses `lastTimestamp` and `count`, by which
tools sort and count Events.
"""
WARNING = EVENT
"""Events as they are read."""

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
"""Kinds a plan may hold besides resources of ours. Each is watched and needs its line of RBAC, so none stands here that
no service makes."""

_SECRETS = "external-secrets.io"
_ROOK, _GATEWAY = "ceph.rook.io/v1", "gateway.networking.k8s.io/v1"
_MARIADB, _RABBITMQ, _KORC = "k8s.mariadb.com/v1alpha1", "rabbitmq.com/v1beta1", "openstack.k-orc.cloud"
_OTHERS = (
    *(Kind(_ROOK, kind, f"{kind.lower()}s") for kind in ("CephCluster", "CephBlockPool", "CephClient")),
    Kind("cert-manager.io/v1", "Certificate", "certificates"),
    Kind(_GATEWAY, "HTTPRoute", "httproutes"),
    Kind(_GATEWAY, "BackendTLSPolicy", "backendtlspolicies"),
    Kind(_MARIADB, "MariaDB", "mariadbs", by="mariadb-operator"),
    *(Kind(_MARIADB, kind, f"{kind.lower()}s") for kind in ("Database", "User", "Grant")),
    Kind(_RABBITMQ, "RabbitmqCluster", "rabbitmqclusters", by="rabbitmq-cluster-operator"),
    *(Kind(_RABBITMQ, kind, f"{kind.lower()}s") for kind in ("Vhost", "User", "Permission")),
    Kind(_RABBITMQ, "Policy", "policies"),
    Kind("memcached.c5c3.io/v1beta1", "Memcached", "memcacheds", by="memcached-operator", remade=True),
    Kind("cache.cs.sap.com/v1alpha1", "Valkey", "valkeys", by="valkey-operator"),
    *(
        Kind(f"{_KORC}/v1alpha1", kind, f"{kind.lower()}s", by="k-orc", finalizer=f"{_KORC}/{kind.lower()}")
        for kind in ("Domain", "Project", "Role", "User", "Service")
    ),
    Kind(f"{_SECRETS}/v1", "ExternalSecret", "externalsecrets"),
    Kind(f"{_SECRETS}/v1beta1", "ExternalSecret", "externalsecrets", newer=f"{_SECRETS}/v1"),
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
"""Which project's role grants the kinds of an API group."""
_C5C3 = "c5c3"
"""The same for our own kinds that are installed on request."""
OTHERS = tuple(replace(kind, optional=True) for kind in _OTHERS)
"""Kinds of other operators a plan may hold. They may not be there at all, or come later, or go."""


class Catalog:
    """Every kind the engine works with, found by what an object says of itself."""

    def __init__(self, resources: Iterable[Resource[Any]]) -> None:
        known = tuple(resources)
        self.resources = tuple(Kind.of(resource) for resource in known)
        self.on_nodes = tuple(Kind.of(resource) for resource in known if resource.nodes)
        """Kinds whose resources look at Nodes."""
        self.all = (*CHILDREN, *OTHERS, *self.resources)
        self._known = {(kind.api_version, kind.kind): kind for kind in self.all}

    def of(self, obj: Mapping[str, Any]) -> Kind:
        """The kind of an object. Raises KeyError for one that is not watched, which no plan may hold."""
        return self._known[obj["apiVersion"], obj["kind"]]
