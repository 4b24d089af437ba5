"""A kind users write: its names, its spec, what `kubectl get` shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from .model import Model

SpecT = TypeVar("SpecT", bound=Model, covariant=True)


def handle(api_version: str, kind: str) -> str:
    """What tells kinds of one name apart, as kubectl has it: `Keystone`, `Keystone.keystone.openstack.c5c3.io`.

    Kinds of Kubernetes' own groups and of openstack.k8s.io go by their name alone.
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
    """What its status tells besides conditions, endpoint and contract; a plan fills it as `details`."""
    group: str = "openstack.k8s.io"
    version: str = "v1alpha1"
    alias: str = ""
    """The kind of openstack.k8s.io whose place it takes for references and labels, where it has another name."""
    short_names: tuple[str, ...] = ()
    """Set where the one made of its group and kind is not wanted; see `unique_names`."""
    columns: tuple[Column, ...] = ()
    """Shown before the age, after the conditions."""
    rules: tuple[dict[str, Any], ...] = ()
    """CEL rules over the whole object (self.metadata.name is at hand there)."""
    scale: Scale | None = None
    """Set where all pods are of one workload, so that one number says how many there are."""
    nodes: bool = False
    """Whether who works on it looks at the Nodes of the cluster."""
    of_node: bool = False
    """Whether it is called as the Node it stands for, which may have dots in its name."""

    as_c5c3: bool = False
    """Whether it is written as c5c3's manifests are: images as objects, {repository, tag, digest}, and fields by the
    names they have there."""
    checked_below: bool = False
    """Whether the rules of what it hands on are left to the kinds that get it: the API server compiles each rule anew
    for each kind, and what is to hold for a resource is not always so for its template."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def handle(self) -> str:
        """What tells it apart from kinds of the same name."""
        return handle(self.api_version, self.kind)

    @property
    def role(self) -> str:
        """What references call it: one of two groups' kinds with the same role is as good as the other."""
        return self.alias or self.kind

    @property
    def has_release(self) -> bool:
        """Whether it is of OpenStack itself, a service or a whole cloud, and so tells which release runs."""
        return self.spec.runs_release is not Model.runs_release

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.group}"

    @property
    def unique_names(self) -> tuple[str, ...]:
        """Names of kubectl's that no other group has, unlike its plural and singular: `osnova` for the Nova of
        openstack.k8s.io, `c5nova` for that of c5c3.
        """
        return self.short_names or (f"{'c5' if self.on_request else 'os'}{self.kind.lower()}",)

    @property
    def on_request(self) -> bool:
        """Whether its definition is installed only on request: it is of c5c3's groups, whose kinds are called as ours
        are.
        """
        return not self.group.endswith(".k8s.io")
