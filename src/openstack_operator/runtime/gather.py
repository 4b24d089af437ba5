"""Inputs of plans, collected before planning; all missing inputs are found at once."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pydantic

from ..api import (
    Dependency,
    Model,
    OptionalSecretRef,
    Ref,
    Resource,
    SecretRef,
    ServiceSpec,
    dependencies,
    references,
    secret_references,
    whole_secrets,
)
from ..kube import MANAGED_BY, dependency_verdict, referent_verdict, secret_data
from ..parts.secrets.rotation import SORTS, order_name
from ..plan import (
    ALLOWED_RESOURCES,
    NO_PERMISSIONS,
    NO_RELEASE,
    PLACEHOLDER,
    Context,
    InstalledKinds,
    Object,
    Permissions,
    Releases,
    ResolvedRef,
    Service,
    SpecError,
    Verdict,
    allows,
    failed,
    fitting,
    waiting,
)
from .entries import Cached, Request
from .errors import not_permitted
from .judgement import key_fault, spec_faults
from .kinds import SECRET, Kind
from .nodes import Nodes
from .permits import account_refusals
from .pods import seen_by_plans, without_image
from .references import Target, condition_kind
from .running_release import running_release
from .secret_sharing import SecretSharing
from .world import World

ADMIN_SECRET = "adminSecret"  # noqa: S105  (a key of the contract, not a secret)

_LOOK_AGAIN = 1.0
"""Seconds between looks at a resource whose owner was not planned yet."""
_PLACEHOLDER = b'"%b"' % base64.b64encode(PLACEHOLDER.encode())


def parse(resource: Resource[Any], live: Object) -> Model:
    """Return the spec as a typed value. Raises SpecError with the path of each field that is wrong."""
    try:
        return cast("Model", resource.spec.from_spec(live.get("spec") or {}))
    except pydantic.ValidationError as error:
        # Without the input: it may hold a secret.
        errors = [(_path(entry["loc"]), entry["msg"]) for entry in error.errors(include_input=False, include_url=False)]
        raise SpecError(*errors[0], *errors[1:]) from None


def _path(location: tuple[int | str, ...]) -> str:
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


@dataclass
class Missing:
    """Required inputs that a plan lacks."""

    absent: list[str] = field(default_factory=list[str])
    unpublished: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    """Uses of Secrets, and settings of pods, that are not allowed."""

    @property
    def verdict(self) -> Verdict | None:
        """All of them in one verdict; an absent object weighs more than one that has not published yet."""
        if self.refused:
            text = "; ".join([*self.refused, *self.absent, *self.unpublished])
            return failed(text, SpecError.reason, incomplete=True)
        if self.absent:
            return failed("; ".join([*self.absent, *self.unpublished]), "MissingReference", incomplete=True)
        return waiting("; ".join(self.unpublished)) if self.unpublished else None


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A context, with the reason why it cannot be planned with, if there is one."""

    context: Context[Any]
    children: tuple[tuple[Kind, Cached], ...]
    """Objects that this resource owns or retains."""
    missing: Verdict | None
    recheck_after: float | None = None
    """Seconds after which to look again at what is missing; None if a watch tells when it is there."""


class Gatherer:
    """A collector of contexts; the only place that reads the clock and draws passwords."""

    def __init__(
        self,
        world: World,
        releases: Releases | None = None,
        domain: str = "cluster.local",
        operator_namespace: str = MANAGED_BY,
        permissions: Permissions = NO_PERMISSIONS,
        services: Sequence[Service] = (),
        *,
        is_ipv6: bool = False,
    ) -> None:
        """Take from the `services` the ports at which they serve others, and the Secrets that they share."""
        self._world = world
        self._releases: Releases = releases or (lambda _: NO_RELEASE)
        self._domain, self._is_ipv6 = domain, is_ipv6
        self._operator_namespace = operator_namespace
        self._permissions = permissions
        self._servers = {each.resource.role: each.listens for each in services if each.listens}
        self._sharing = SecretSharing(world, services)
        self._shared = {each.resource.role: tuple(each.shares) for each in services}
        """Patterns of the names of Secrets that resources share, by role."""

    async def gather(self, resource: Resource[Any], owner: Cached, spec: Model, *, admin: bool = False) -> Gathered:
        """Return the context of one resource, with the Secrets its referents publish; the admin's only with `admin`.

        Raises SpecError for an unknown release and for a name in use, Transient when a Secret could not be read.
        """
        kind = Kind.of(resource)
        request = Request(kind.handle, owner.meta.namespace, owner.meta.name)
        missing, targets = Missing(), self._rival_targets(request, owner)
        refs = self._referents(request, spec, missing, targets)
        waits = self._dependency_verdicts(request, spec, targets)
        named_secrets = await self._secrets(request, spec, missing, targets)
        recheck_after = await self._check_sharing(request, owner, spec, named_secrets, missing, targets)
        faults = spec_faults(spec, named_secrets, request.namespace, self._domain, self._permissions)
        missing.refused += map(str, faults)
        data: dict[str, Mapping[str, str]] = {name: secret_data(each.decode()) for name, each in named_secrets.items()}
        if admin:
            refused, waits_for = account_refusals(self._world, kind, owner, spec, refs, named_secrets)
            missing.refused += refused
            missing.unpublished += waits_for
            recheck_after = _LOOK_AGAIN if waits_for else recheck_after
        data |= await self._published_secrets(request, refs, missing, targets, admin=admin)
        # Before the objects that were read can change: the next change of an object wakes its users.
        children = tuple(self._children(request, owner))
        # At once after they were read: the budget may have dropped one of them since the pass began.
        self._world.check_complete(request)
        refuse_placeholders(children)
        context = Context(
            kind=kind.role,
            owner=owner.meta.name,
            namespace=owner.meta.namespace,
            spec=spec,
            release=NO_RELEASE if admin else self._releases(spec),
            releases=self._releases,
            refs=refs,
            dependencies=waits,
            secrets=data,
            children={(kind.handle, child.meta.name): child.decode() for kind, child in children},
            deleted_secrets={
                old.meta.name: old.decode() for old in self._world.stores[SECRET].deleted(kind.role, *request[1:])
            },
            pods=seen_by_plans(self._pods(request), children),
            without_image=without_image(self._pods(request)),
            nodes=Nodes(self._world.nodes),
            generation=owner.meta.generation,
            annotations=owner.meta.annotations,
            now=datetime.now(UTC),
            draw=lambda: secrets.token_urlsafe(24),
            domain=self._domain,
            is_ipv6=self._is_ipv6,
            operator_namespace=self._operator_namespace,
            installed_kinds=self._installed_kinds(owner.meta.namespace),
            servers=self._servers,
            running_release=running_release(owner, children) if resource.has_release else "",
            permissions=self._permissions,
        )
        return Gathered(context=context, children=children, missing=missing.verdict, recheck_after=recheck_after)

    def _installed_kinds(self, namespace: str) -> InstalledKinds:
        forbidden = self._world.forbidden_kinds(namespace)
        reasons = {name: not_permitted(kind) for kind in forbidden for name in (kind.handle, kind.versioned)}
        return InstalledKinds(self._world.installed_kinds, reasons)

    def forget(self, request: Request) -> None:
        """Forget the references of a resource that is gone; nothing wakes it anymore."""
        self._world.references.set(request, ())

    def _rival_targets(self, request: Request, owner: Cached) -> set[Target]:
        """Return the target that shows the end of a rival of the same name. Raises SpecError for an older rival."""
        rivals = self._world.rivals(request)
        targets = {self._world.target(request)} if rivals else set[Target]()
        self._world.references.set(request, targets)
        for kind, rival in rivals:
            if self._world.find(*self._world.target(request)) is rival:
                name = f"{kind.kind}/{rival.meta.name} of {kind.group} is called the same and was here first"
                raise SpecError("metadata.name", f"{name}, so that nothing is made of this one; rename or delete it")
        return targets

    def _referents(
        self, request: Request, spec: Model, missing: Missing, targets: set[Target]
    ) -> dict[Ref, ResolvedRef]:
        referents: dict[Ref, ResolvedRef] = {}
        for path, ref in references(spec):
            namespace = ref.namespace_in(request.namespace)
            targets.add((ref.kind, namespace, ref.name))
            self._world.references.set(request, targets)
            resource = self._world.find(ref.kind, namespace, ref.name)
            if namespace != request.namespace and not self._is_allowed(request, resource):
                missing.absent.append(self._not_allowed(request, path, ref))
                continue
            if resource is None and (before := self._world.published_before(ref.kind, request.namespace, ref.name)):
                # A plan without it, and one with it a moment later, would replace pods twice.
                referents[ref] = ResolvedRef(
                    before, waiting(f"waiting for {ref.kind}/{ref.name} to come back", "Waiting")
                )
                continue
            if ref.optional and (resource is None or not self._world.published(resource)):
                if resource is not None and ref.existing:
                    referents[ref] = ResolvedRef(verdict=waiting(f"waiting for {ref.kind}/{ref.name}", "Waiting"))
                continue
            if resource is None:
                missing.absent.append(f"{path}: there is no {ref.kind} {ref.name!r} in this namespace")
                continue
            published = self._world.published(resource)
            if not published:
                missing.unpublished.append(f"waiting for {ref.kind}/{ref.name} to publish its address")
            verdict = referent_verdict(resource.decode())
            # That resource reports its own failure; here it ends by itself once that one is ready.
            referents[ref] = ResolvedRef(
                published,
                verdict if verdict.ready else waiting(verdict.message, "Waiting"),
                "" if namespace == request.namespace else namespace,
            )
        return referents

    def _is_allowed(self, request: Request, resource: Cached | None) -> bool:
        """Return True if a resource of another namespace exists and allows this one to use it."""
        kind = self._world.resource(request.kind).kind
        return resource is not None and allows(
            resource.meta.annotations, kind, request.name, namespace=request.namespace
        )

    def _not_allowed(self, request: Request, path: str, ref: Ref) -> str:
        """Return the same message whether the resource exists or not: what is in another namespace is not told."""
        namespace, kind = ref.namespace_in(request.namespace), self._world.resource(request.kind).kind
        if not self._world.serves(namespace):
            return f"{path}: the operator does not serve namespace {namespace!r}; its administrator may add it"
        entry = f"{request.namespace}/{kind}/{request.name}"
        return (
            f"{path}: namespace {namespace!r} has no {ref.kind} {ref.name!r} that allows {entry}. An administrator"
            f" there who knows who wrote {entry}, and lets them use that one, adds the entry to its annotation"
            f" {ALLOWED_RESOURCES}"
        )

    def _dependency_verdicts(self, request: Request, spec: Model, targets: set[Target]) -> dict[Dependency, Verdict]:
        verdicts: dict[Dependency, Verdict] = {}
        for _, dep in dependencies(spec):
            targets.update((kind, request.namespace, dep.name) for kind in (dep.kind, condition_kind(dep)))
            self._world.references.set(request, targets)
            resource = self._world.find(dep.kind, request.namespace, dep.name)
            verdicts[dep] = dependency_verdict(resource.decode() if resource else None, dep)
        return verdicts

    async def _secrets(
        self, request: Request, spec: Model, missing: Missing, targets: set[Target]
    ) -> dict[str, Cached]:
        secret_refs = [*secret_references(spec), *whole_secrets(spec), *_orders(request, spec)]
        targets.update(("Secret", request.namespace, ref.name) for _, ref in secret_refs)
        self._world.references.set(request, targets)
        by_name: dict[str, Cached] = {}
        for path, ref in secret_refs:
            secret = await self._world.secret(request.namespace, ref.name) if ref.name not in by_name else None
            if secret is not None:
                by_name[ref.name] = secret
            if ref.name not in by_name and isinstance(ref, OptionalSecretRef):
                continue
            if ref.name not in by_name:
                missing.absent.append(f"{path}{ref.field}: there is no Secret {ref.name!r} in this namespace")
            elif isinstance(ref, SecretRef):
                continue
            elif fault := key_fault(path, ref, secret_data(by_name[ref.name].decode())):
                missing.absent.append(str(fault))
        return by_name

    async def _check_sharing(
        self,
        request: Request,
        owner: Cached,
        spec: Model,
        named_secrets: Mapping[str, Cached],
        missing: Missing,
        targets: set[Target],
    ) -> float | None:
        """Note the Secrets that the operator keeps for other resources. Return the seconds until the next look at what
        no watch tells.
        """
        findings = await self._sharing.examine(self._world.resource(request.kind), owner, spec, named_secrets)
        missing.refused += findings.refused
        missing.unpublished += findings.waiting
        targets |= findings.targets
        self._world.references.set(request, targets)
        return _LOOK_AGAIN if findings.unplanned else None

    async def _published_secrets(
        self, request: Request, refs: Mapping[Ref, ResolvedRef], missing: Missing, targets: set[Target], *, admin: bool
    ) -> dict[str, Mapping[str, str]]:
        """Return the Secrets that the contracts name: `<what>Secret` publishes the name of one."""
        publishers = {
            (ref.namespace_in(request.namespace), name): ref
            for ref, resolved in refs.items()
            for key, name in resolved.published.items()
            if key.endswith("Secret") and (admin or key != ADMIN_SECRET)
        }
        targets.update(("Secret", *each) for each in publishers)
        self._world.references.set(request, targets)
        contents: dict[str, Mapping[str, str]] = {}
        for (namespace, name), ref in publishers.items():
            secret = await self._world.secret(namespace, name)
            is_far = namespace != request.namespace
            if secret is None or (is_far and not self._is_shared(secret, ref)):
                missing.unpublished.append(f"waiting for Secret/{name} of {ref.kind}/{ref.name}")
            else:
                contents[f"{namespace}/{name}" if is_far else name] = secret_data(secret.decode())
        return contents

    def _is_shared(self, secret: Cached, ref: Ref) -> bool:
        """Return True if a Secret of another namespace is one that the resource, which names it, shares. A status may
        name any, and a user who may write a status need not be allowed to read Secrets.
        """
        names = {fitting(pattern.format(name=ref.name)) for pattern in self._shared.get(ref.kind, ())}
        is_its_own = secret.meta.owner_labels[1:] == (ref.kind.lower(), fitting(ref.name))
        return is_its_own and secret.meta.name in names

    def _pods(self, request: Request) -> list[Cached]:
        role = self._world.resource(request.kind).role
        return self._world.pods.owned(request.namespace, role, request.name)

    def _children(self, request: Request, owner: Cached) -> list[tuple[Kind, Cached]]:
        return [(kind, child) for kind, child in self._world.children(request) if _belongs(child, owner)]


def _orders(request: Request, spec: Model) -> list[tuple[str, OptionalSecretRef]]:
    """Return references to the Secrets that order a service to replace its passwords, whatever writes them."""
    names = [order_name(request.name, sort) for sort in SORTS] if isinstance(spec, ServiceSpec) else []
    return [("", OptionalSecretRef(name=name)) for name in names]


def _belongs(child: Cached, owner: Cached) -> bool:
    """Return True if an object belongs to an owner. Without a controller it belongs to the resource its labels name: an
    earlier owner of that name left it, or a user took its owner references. A plan without it would draw new passwords.
    """
    controller = child.meta.controller
    return controller is None or controller.uid == owner.meta.uid


def refuse_placeholders(children: Iterable[tuple[Kind, Cached]]) -> None:
    """Raise SpecError for a Secret of passwords that everybody knows: a user applied what `render` prints."""
    for kind, child in children:
        if kind is SECRET and _PLACEHOLDER in child.raw:
            message = (
                "holds a placeholder of `openstack-operator render`; delete it, and the operator draws new values. "
                "Apply your own manifests alone, not what render prints"
            )
            raise SpecError(f"Secret/{child.meta.name}", message)
