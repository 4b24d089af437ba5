"""A kind users write: its names, its spec, what `kubectl get` shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from .model import Model

SpecT = TypeVar("SpecT", bound=Model, covariant=True)


def handle(api_version: str, kind: str) -> str:
    """Return the name that distinguishes kinds, as kubectl does: `Keystone`, `Keystone.keystone.openstack.c5c3.io`.

    Kinds of Kubernetes' own groups and of openstack.k8s.io have only their name.
    """
    group = api_version.rpartition("/")[0]
    return kind if "." not in group or group.endswith(".k8s.io") else f"{kind}.{group}"


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0
    """1 shows it only with -o wide."""


READY_COLUMNS = (
    Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    Column("Reason", '.status.conditions[?(@.type=="Ready")].reason'),
    Column("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
)
AGE_COLUMN = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True)
class TimeMetric:
    """A time in the status of a kind, as a gauge in seconds since the epoch."""

    name: str
    """Of the gauge, without `openstack_operator_` and `_timestamp_seconds`."""
    description: str
    field: str
    """Field of the status, a time of RFC 3339."""


@dataclass(frozen=True)
class Scale:
    """The pods whose number is `spec.replicas`, as `kubectl scale` and a HorizontalPodAutoscaler see them."""

    component: str
    """Of the workload `<name>-<component>`."""
    kind: Literal["Deployment", "StatefulSet"] = "Deployment"


@dataclass(frozen=True, kw_only=True)
class Resource(Generic[SpecT]):
    """A custom resource definition in terms of its model."""

    kind: str
    plural: str
    spec: type[SpecT]
    status: type[Model] | None = None
    """Fields of its status besides conditions, endpoint and contract; a plan fills them as `details`."""
    group: str = "openstack.k8s.io"
    version: str = "v1alpha1"
    alias: str = ""
    """Kind of openstack.k8s.io that it replaces for references and labels, if that has another name."""
    short_names: tuple[str, ...] = ()
    """Set to replace the one made of its group and kind; see `unique_names`."""
    columns: tuple[Column, ...] = ()
    """Shown before the age, after the conditions."""
    times: tuple[TimeMetric, ...] = ()
    """Times in its status that are metrics."""
    rules: tuple[dict[str, Any], ...] = ()
    """CEL rules over the whole object (self.metadata.name is at hand there)."""
    scale: Scale | None = None
    """Set if all pods are of one workload, so that one number is the number of pods."""
    nodes: bool = False
    """True if its reconciler reads the Nodes of the cluster."""
    of_node: bool = False
    """True if it has the name of the Node it stands for, which may contain dots."""

    privileged: bool = False
    """True if a user who may write it can have the operator read or write all Secrets of the namespace: a role of its
    own grants it, and none that Kubernetes' own roles take in."""
    as_c5c3: bool = False
    """True if it is written as c5c3's manifests are: images as objects, {repository, tag, digest}, and fields by the
    names they have there."""
    checked_below: bool = False
    """True if the rules of its templates are left to the kinds they become: the API server compiles each rule again
    for each kind, and a rule for a resource does not always hold for its template."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def handle(self) -> str:
        """Name that distinguishes it from kinds of the same name."""
        return handle(self.api_version, self.kind)

    @property
    def role(self) -> str:
        """Kind by which references name it: kinds of two groups with the same role can replace each other."""
        return self.alias or self.kind

    @property
    def has_release(self) -> bool:
        """True if it is part of OpenStack, a service or a whole cloud, and so reports which release runs."""
        return self.spec.runs_release is not Model.runs_release

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.group}"

    @property
    def unique_names(self) -> tuple[str, ...]:
        """Names for kubectl that no other group has, unlike its plural and singular: `osnova` for the Nova of
        openstack.k8s.io, `c5nova` for that of c5c3.
        """
        return self.short_names or (f"{'c5' if self.on_request else 'os'}{self.kind.lower()}",)

    @property
    def on_request(self) -> bool:
        """True if its definition is installed only on request: it is of c5c3's groups, whose kinds have the same names
        as ours.
        """
        return not self.group.endswith(".k8s.io")

    @property
    def project(self) -> str:
        """Name of the project whose manifests it serves, if its definition is installed only on request."""
        return "c5c3" if self.on_request else ""
