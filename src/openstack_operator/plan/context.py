"""All a service may look at, gathered once before planning."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from ..api import Dependency, Model, Ref
from .errors import Transient
from .fitting_names import NAME_LIMIT, STATEFUL_SET_LIMIT, fitting
from .permissions import NO_PERMISSIONS, Permissions
from .release import NO_RELEASE, Release, is_earlier
from .steps import Key, Object
from .verdict import READY, Verdict

SpecT = TypeVar("SpecT", bound=Model, covariant=True)


PLACEHOLDER = "<drawn>"
"""Printed in place of each generated password and key."""


def key_placeholder(secret: str, key: str) -> str:
    """Return the text that plans without a cluster have in place of a key of a Secret that is in no manifest."""
    return f"<{secret}.{key}>"


@dataclass(frozen=True)
class ResolvedRef:
    """Another resource as its contract shows it."""

    published: Mapping[str, str] = field(default_factory=dict[str, str])
    verdict: Verdict = READY
    """Its Ready condition."""
    namespace: str = ""
    """Its namespace; empty if that is the one of the resource that refers to it."""

    def __getitem__(self, name: str) -> str:
        return self.published[name]


@dataclass(frozen=True)
class Node:
    """A Node of the Kubernetes cluster."""

    uid: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    is_away: bool = False
    """True while its kubelet is silent, or says that it cannot run pods."""

    def selected(self, labels: Mapping[str, str]) -> bool:
        """Return True if a nodeSelector takes it."""
        return labels.items() <= self.labels.items()


class InstalledKinds:
    """The kinds of other operators that a cluster serves, by handle, in the version plans write."""

    def __init__(self, handles: Iterable[str] = (), forbidden: Mapping[str, str] | None = None) -> None:
        """`forbidden` are kinds that the cluster serves and the operator may not read, each with what to do."""
        self._forbidden = forbidden or {}
        self._handles = frozenset(handles) - self._forbidden.keys()

    def missing(self, *handles: str) -> frozenset[str]:
        """Return those of the kinds that the cluster does not serve."""
        return frozenset(handles) - self._handles

    def forbidden(self, *handles: str) -> str:
        """Advise about those of the kinds that the operator may not read; empty where it may read all."""
        return "; ".join(dict.fromkeys(self._forbidden[name] for name in handles if name in self._forbidden))

    def check_permitted(self, path: str, *handles: str) -> None:
        """Raise Transient if the operator may not read one of the kinds that the field at `path` asks for or leaves
        open: a decision without them may take a server that holds data for a new one.
        """
        if reason := self.forbidden(*handles):
            raise Transient(f"{path}: {reason}")


@dataclass(frozen=True, kw_only=True)
class Listens:
    """Ports at which pods of a kind serve others."""

    ports: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    """Ports by component; none are all ports."""
    closed: bool = False
    """True if NetworkPolicies always close its pods: its clients can read or change a cloud's data, or the operator is
    its only one."""
    from_nodes: bool = False
    """True if programs on the network of nodes use it in some clouds, and their own plans open it."""
    open_to_nodes: bool = False
    """True if programs on the network of nodes use it in every cloud."""
    elsewhere: Sequence[str] = ()
    """Kinds whose resources of other namespaces use it, if an annotation of its own allows them."""


def secret_data(live: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the plain text of a Secret's data, with bytes that are not UTF-8 as lone surrogates; empty for None."""
    data: Mapping[str, str] = (live or {}).get("data") or {}
    return {k: base64.b64decode(v).decode(errors="surrogateescape") for k, v in data.items()}


@dataclass(frozen=True, kw_only=True)
class Context(Generic[SpecT]):
    """The world as one pass sees it; never refreshed while planning."""

    kind: str
    owner: str
    namespace: str
    spec: SpecT
    release: Release
    refs: Mapping[Ref, ResolvedRef] = field(default_factory=dict[Ref, ResolvedRef])
    """Every Ref of the spec, by value; an optional one only once its referent publishes, or exists (ExistingRefTo)."""
    dependencies: Mapping[Dependency, Verdict] = field(default_factory=dict[Dependency, Verdict])
    """Verdict on each dependency of the spec, by value."""
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Decoded data of the Secrets the spec names, by name; of another namespace, by `namespace/name`."""
    children: Mapping[Key, Object] = field(default_factory=dict[Key, Object])
    """Live objects this resource owns."""
    deleted_secrets: Mapping[str, Object] = field(default_factory=dict[str, Object])
    """Its irreplaceable Secrets that were deleted while this process watched, with their last content, by name."""
    pods: Sequence[Object] = ()
    """Its pods whose template bears the label WATCHED, by name: identity, labels, the operator's annotations,
    `spec.nodeName` (before that, the affinity to nodes), and of the status `phase`, `podIP`, `conditions` and
    `containerStatuses`. Those of a DaemonSet that the operator replaces are among them, too, if an earlier version made
    them without that label: without annotations.
    """
    without_image: Sequence[tuple[str, str, str]] = ()
    """Of each of its pods whose program never started, because its image cannot be had: kind and name of the workload,
    and the label of the version.
    """
    nodes: Mapping[str, Node] = field(default_factory=dict[str, Node])
    """Nodes of the cluster by name, for resources that look at them."""
    generation: int = 1
    """Of the resource itself: how often its spec was changed."""
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of the resource itself: one-time orders of a user, which are no part of the spec."""
    conflicting_fields: frozenset[str] = frozenset()
    """Fields of the spec that name what another resource owns on a server: to be left alone."""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Facts that the service learned from its members or servers (`Service.observes`); empty for others."""
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    draw: Callable[[], str] = field(default=lambda: "drawn")
    """A new random password, 32 URL-safe characters."""
    domain: str = "cluster.local"
    """The DNS domain of the Kubernetes cluster."""
    is_ipv6: bool = False
    """True if the first address of pods is of IPv6: that of their Services, too, and the one that kubelets ask."""
    operator_namespace: str = "openstack-operator"
    """Namespace of the operator's own pods."""
    kinds: frozenset[tuple[str, str]] = frozenset()
    """All that plans may have, by apiVersion and kind."""
    installed_kinds: InstalledKinds = field(default_factory=InstalledKinds)
    servers: Mapping[str, Listens] = field(default_factory=dict[str, Listens])
    """Ports of the kinds that serve others, by kind."""
    api_service: str = ""
    """Name of a second Service of its API, whose names are in the certificates of a PKI, too; empty for none."""
    releases: Callable[[Model], Release] = lambda _: NO_RELEASE
    """Function that returns the release of another spec. Raises SpecError where there is no such release or profile."""
    running_release: str = ""
    """Release that last ran completely, by the status; empty for a new resource and for kinds without a release."""
    programs: str = ""
    """Kind whose programs its pods run, if that is another kind than its own."""
    permissions: Permissions = NO_PERMISSIONS
    """Permissions beyond the namespace that the operator's administrator grants."""

    @property
    def upgrades_from(self) -> str:
        """Earlier release that runs until an upgrade is completed; empty without an upgrade, and on a way back."""
        release = self.running_release
        return release if release and is_earlier(release, self.release.name) else ""

    @property
    def any_address(self) -> str:
        """Address at which a program of a pod listens for all clients. That of IPv6 takes IPv4 as well, but there are
        nodes whose kernel has none.
        """
        return "::" if self.is_ipv6 else "0.0.0.0"  # noqa: S104

    def name(self, *parts: str) -> str:
        """Return `<owner>-<part>…`, the name of everything made for this resource, at most 63 characters."""
        return fitting("-".join((self.owner, *parts)))

    def live(self, kind: str, *parts: str) -> Object | None:
        """Return the object `<owner>-<part>…` of that kind in the cluster; None if there is none."""
        limit = STATEFUL_SET_LIMIT if kind == "StatefulSet" else NAME_LIMIT
        return self.children.get((kind, fitting(self.name(*parts), limit)))

    def secret(self, *parts: str, or_deleted: bool = False) -> dict[str, str]:
        """Return the data of Secret `<owner>-<part>…` in the cluster; with `or_deleted`, also of an irreplaceable one
        that was deleted. Empty if there is none.
        """
        return secret_data(
            self.live("Secret", *parts) or (self.deleted_secrets.get(self.name(*parts)) if or_deleted else None)
        )

    def host(self, service: str) -> str:
        """Return the fully qualified name of a Service in this namespace."""
        return f"{service}.{self.namespace}.svc.{self.domain}"
