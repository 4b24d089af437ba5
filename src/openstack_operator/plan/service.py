"""Records of what the operator serves: a service plans Kubernetes objects, an actuator changes a remote system."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, Protocol

from ..api import Model, Resource, SecretUse, Sections, ServiceSpec
from .context import Context, Listens
from .ignored import (
    FIELDS_IGNORED,
    FIELDS_INCONSISTENT,
    IgnoredFields,
    fields_message,
    ignored_fields,
    ignored_verdict,
    inconsistent_verdict,
)
from .image_profile import image_verdict
from .kind import Kind
from .name_claim import NameClaims
from .node_labels import unused_labels
from .release import Release
from .single_copy import single_copies, single_copy_verdict
from .steps import Outcome, Plan
from .upgrade import plan_upgrade
from .verdict import Verdict

Planner = Callable[[Context[Any]], Plan]
Phases = Callable[[Mapping[str, Verdict]], str]
"""The phase a resource is in, from its conditions by type (`DatabaseReady`, ..., `Ready`)."""
Releases = Callable[[Model], Release]
"""The release a spec asks for. Raises SpecError where there is no such release or profile."""


@dataclass(frozen=True)
class MemberReports:
    """An observation: the JSON object that each member answers, by name; None for one that does not answer."""

    urls: Callable[[Context[Any]], Mapping[str, str]]
    """Function that returns the URL of each member, by name."""


@dataclass(frozen=True)
class SecretReaders:
    """An observation: the operator's `secrets` and all `pods` of the namespace, with the times of their changes."""

    needed: Callable[[Context[Any]], bool]
    """Function that returns False if the next plan does not use them."""


@dataclass(frozen=True)
class TrustInUse:
    """An observation: the operator's `secrets` with authorities, without their keys, and all `pods` of the namespace;
    the certificates in PEM that are `shown` by pods, by pod, if only these are missing; and the `issuer` of
    cert-manager, if there is one that the operator may read.
    """

    needed: Callable[[Context[Any]], bool]
    """Function that returns False if the next plan does not use any of them."""
    certificates_needed: Callable[[Context[Any]], bool]
    """Function that returns True if only certificates are missing; called with a context that has the rest."""
    issuer: Callable[[Context[Any]], tuple[Kind, str | None, str] | None] = lambda _: None
    """Function that returns the issuer to read: its kind, namespace (none for one of the whole cluster) and name."""


@dataclass(frozen=True)
class CloudContents:
    """An observation: the `objects` of the namespace that a backup holds, and its `databases`, `networks`, `images`,
    `storages` and `identities`, each with its `name`, `workloads` (StatefulSets), `deployments`, `pods`, `claims` and
    what it `published`.
    """

    needed: Callable[[Context[Any]], bool]
    """Function that returns False if the next plan does not use them."""
    left_out: Sequence[str]
    """Kinds that are no part of a cloud."""
    databases: Sequence[str]
    """Kinds of databases."""
    networks: Sequence[str]
    """Kinds with a northbound database of OVN."""
    images: Sequence[str]
    """Kinds with images of servers."""
    storages: Sequence[str]
    """Kinds with pools of Ceph."""
    identities: Sequence[str]
    """Kinds of services by which users log in."""
    orders: Sequence[str]
    """Annotations by which a user orders something once; they are left out."""


@dataclass(frozen=True)
class CloudDatabases:
    """An observation: the `databases` of the namespace, each as `CloudContents` has it; the `reports` of pods that
    archive them: the JSON object that each answers, by name, None for one that does not answer; and the `siblings`: all
    resources of this kind in the namespace, each with its `name`, the time at which it was `created`, its `spec`,
    `deleted` if it is being deleted or gone, and the components of its `programs`, which have a Deployment or a pod.
    """

    needed: Callable[[Context[Any]], bool]
    """Function that returns False if the next plan does not use them."""
    databases: Sequence[str]
    """Kinds of databases."""
    urls: Callable[[Context[Any]], Mapping[str, str]]
    """Function that returns the URL of each pod, by name."""


@dataclass(frozen=True)
class Served:
    """Address at which a pod serves a JSON object to the operator, by TLS."""

    url: str
    authority: str
    """Certificate in PEM of the authority that signed that of the pod."""
    token: str
    """Text that the pod expects."""


@dataclass(frozen=True)
class ServedContents:
    """An observation: the JSON object that a pod serves to the operator alone; empty while it does not answer. With
    it the `databases` of the namespace, each as `CloudContents` has it.
    """

    source: Callable[[Context[Any]], Served | None]
    """Function that returns where to read it; None if the next plan does not use it."""
    databases_needed: Callable[[Context[Any]], bool]
    """Function that returns False if the next plan does not use the databases."""
    databases: Sequence[str]
    """Kinds of databases."""


@dataclass(frozen=True)
class CloudResources:
    """An observation: the live `resources` of other kinds in the namespace, those that are being deleted left out."""

    needed: Callable[[Context[Any]], bool]
    """Function that returns False if the next plan does not use them."""
    kinds: Sequence[str]


Observation = (
    MemberReports | SecretReaders | TrustInUse | CloudContents | CloudDatabases | CloudResources | ServedContents
)
"""An order to read the live world before planning; the result becomes `ctx.facts`."""


class Reader(Protocol):
    """The side of a connection that reads."""

    async def readexactly(self, n: int, /) -> bytes:
        """Return n bytes. Raises EOFError if there are fewer."""
        ...


class Writer(Protocol):
    """The side of a connection that writes."""

    def write(self, data: bytes, /) -> None:
        """Send the bytes."""
        ...


StartTLS = Callable[[Reader, Writer], Awaitable[None]]
"""A function that takes a new connection to the point where TLS begins."""


CloudPhase = Literal["Infrastructure", "Identity", "CoreServices", "ComputeAndStorage", "OptionalServices"]
"""Phases of a cloud in their order, without Ready."""


@dataclass(frozen=True, kw_only=True)
class CloudTemplate:
    """A service's template in an OpenStackControlPlane, and what a cloud has to know of the service."""

    field: str
    """Field of the spec of a cloud, and the name of the resource, to which references of others point by default."""
    phase: CloudPhase
    """Phase of the cloud while this service is not ready."""
    label: str = ""
    """Condition of the service; unset takes the kind."""
    description: str = ""
    """Description of the template; for services that the spec of a cloud does not name itself. These are off by
    default."""
    programs: Mapping[str, str] | Callable[[Any], Mapping[str, str]] = dataclasses.field(
        default_factory=dict[str, str], hash=False
    )
    """Components of a release that its pods run, each with the field of the spec that replaces its image wherever it
    runs, empty for none; a function of the spec if they differ within a kind. A profile may lack some of them."""


@dataclass(frozen=True, kw_only=True)
class C5C3:
    """A service that is also served in c5c3's API group for its kind, `<kind>.openstack.c5c3.io`."""

    plan: Planner | None = None
    """Plan of it, if it differs."""
    status: type[Model] | None = None
    """Status of it, if it differs."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A resource that becomes Kubernetes objects."""

    resource: Resource[Any]
    plan: Planner
    observes: Observation | None = None
    teardown: bool | Callable[[Any], bool] = False
    """True if on deletion its steps go in reverse order, each once the one after it is gone; a function of the spec if
    that differs within a kind."""
    phases: Phases | None = None
    """Function that computes `status.phase`."""
    listens: Listens | None = None
    """Ports at which others reach its pods; None if it is no server, or opens its ports itself."""
    start_tls: Mapping[str, StartTLS] = field(default_factory=dict[str, StartTLS])
    """Functions for ports that do not begin with TLS, by the port's name."""
    template: CloudTemplate | None = None
    """Its template in a cloud; None if a cloud does not make it as a service."""
    c5c3: C5C3 | None = None
    kinds: Sequence[Kind] = ()
    """Kinds by which an operator of another project runs the same server, its schemas and its accounts."""
    shares: Mapping[str, str] = field(default_factory=dict[str, str])
    """Secrets of it that fields of other resources may name: purpose of these fields, by the name of the Secret, in
    which `{name}` stands for that of the resource. The operator refuses its other Secrets there."""
    collects: Callable[[Any], Sequence[SecretUse]] | None = None
    """Function from a spec to the Secrets of which its own Secret is a copy. Other resources may name that if they may
    name all of these."""
    ignores: Sequence[Callable[[Context[Any], Plan], IgnoredFields]] = ()
    """Functions that name fields which a plan does not use in the mode that the spec chooses."""
    reviews: Sequence[Callable[[Context[Any], Plan], IgnoredFields]] = ()
    """Functions that compare fields of a spec with each other and with the plan, and return what does not go together,
    by the path of a field. They raise SpecError."""
    internal_overrides: Sections = field(default_factory=dict[str, dict[str, Any]], hash=False)
    """Options of `config` that an internal program of it replaces, while its other programs take them."""
    checks: Sequence[Callable[[Context[Any]], Mapping[str, Verdict]]] = ()
    """Functions that look at a spec before it is planned, and return conditions. They raise SpecError."""
    dispensable: Sequence[str] = ()
    """Workloads that a cloud does not need to go on, by the end of their names after that of the resource: `SingleCopy`
    does not name them."""

    has_release_images: bool = True
    """True if the operator starts an image of its spec with commands of the release."""

    def make_plan(self, ctx: Context[Any]) -> Plan:
        """Return the plan of a resource, with conditions on its options, and with those that name fields of its spec
        that have no effect, images of which the operator knows only the name, and what exists once in a highly
        available cloud; in an upgrade, of the release that runs until a check of the new one succeeds. Raises what the
        checks and the plan raise.
        """
        return plan_upgrade(ctx, self._make_plan) if isinstance(ctx.spec, ServiceSpec) else self._make_plan(ctx)

    def _make_plan(self, ctx: Context[Any]) -> Plan:
        checked = {name: verdict for check in self.checks for name, verdict in check(ctx).items()}
        plan = self.plan(ctx)
        if condition := single_copy_verdict(single_copies(ctx, plan, self.dispensable)):
            plan = plan.with_conditions(condition)
        remarks = {
            FIELDS_IGNORED: self._ignored_fields(ctx, plan),
            FIELDS_INCONSISTENT: {path: text for review in self.reviews for path, text in review(ctx, plan).items()},
        }
        extra_conditions = checked | _remark_conditions(plan, remarks)
        if self.resource.nodes and ctx.permissions.node_labels == "restricted":
            extra_conditions |= unused_labels({name: node.labels for name, node in ctx.nodes.items()})
        if self.has_release_images:
            extra_conditions |= image_verdict(ctx)
        return plan.with_conditions(extra_conditions).with_remarks(remarks)

    def _ignored_fields(self, ctx: Context[Any], plan: Plan) -> IgnoredFields:
        advice: dict[str, str] = {}
        for function in self.ignores:
            advice = {**function(ctx, plan), **advice}
        return ignored_fields(ctx, advice, as_c5c3=self.resource.as_c5c3) if advice else {}


def _remark_conditions(plan: Plan, remarks: Mapping[str, IgnoredFields]) -> dict[str, Verdict]:
    """Return the conditions with these remarks on fields, and with those that a cloud has of its resources."""
    extra_conditions: dict[str, Verdict] = {}
    for type_, verdict in ((FIELDS_IGNORED, ignored_verdict), (FIELDS_INCONSISTENT, inconsistent_verdict)):
        of_children = plan.outcome.extra_conditions.get(type_)
        if text := fields_message(remarks[type_]):
            extra_conditions |= verdict(text, of_children.message if of_children else "")
    return extra_conditions


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """A resource that becomes something outside Kubernetes: an SQL account, a user of Keystone."""

    resource: Resource[Any]
    ensure: Callable[[Context[Any]], Sequence[str]]
    """Function that makes the remote side as the spec says and returns its changes, a sentence each. Blocking; runs in
    a thread. Raises Transient when the remote side is out of reach, SpecError when it refuses.
    """
    remove: Callable[[Context[Any]], object]
    """Function that removes what `ensure` made; no error if it is gone already. Blocking; raises as `ensure` does."""
    observe: Callable[[Context[Any]], Outcome] | None = None
    """Function that reads the remote side after `ensure`, with the same rules, for the `details` of the status that
    only this kind has, and for extra conditions, with `Ready` if that does not follow from `ensure` alone.
    """
    external_kind: Callable[[Any], str] | None = None
    """Function from a spec to the handle of another operator's kind that has an object of the same name for the same
    thing; empty for none. That object is deleted first, and is created again if `ensure` raises Drifted.
    """
    claims: NameClaims | None = None
    """Function that returns the names that only one resource may have: of several that claim the same, the oldest has
    it. The others are not ensured, and removed with their fields in `ctx.conflicting_fields`.
    """
    rivals: Mapping[Resource[Any], NameClaims] = field(default_factory=dict["Resource[Any]", NameClaims])
    """Claims of other kinds, which may have the same keys."""
    interval: timedelta = timedelta(minutes=1)
    """Time between two passes, since nothing reports changes of the remote side."""
