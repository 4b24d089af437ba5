"""Inputs of the plan of a resource, besides the resource itself, and those that are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...api import (
    Dependency,
    Model,
    OptionalSecretRef,
    Ref,
    SecretRef,
    ServiceSpec,
    dependencies,
    references,
    secret_references,
    whole_secrets,
)
from ...kube import dependency_verdict, referent_verdict, secret_data
from ...parts.secrets.rotation import SORTS, order_name
from ...plan import ALLOWED_RESOURCES, ResolvedRef, SpecError, Verdict, allows, failed, fitting, waiting
from ..cache.entries import Cached, Request
from ..cache.references import Target, condition_kind
from ..cache.world import World
from ..guards.judgement import key_fault
from ..guards.permits import account_refusals
from ..guards.secret_sharing import SecretSharing

ADMIN_SECRET = "adminSecret"  # noqa: S105  (a key of the contract, not a secret)

_LOOK_AGAIN = 1.0
"""Seconds between looks at a resource whose owner was not planned yet."""


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


class Inputs:
    """The inputs of one plan. Each object that is looked for is followed from then on: a change of it wakes the
    resource.
    """

    def __init__(self, world: World, request: Request, owner: Cached, spec: Model) -> None:
        self._world, self._request, self._owner, self._spec = world, request, owner, spec
        self._targets: set[Target] = set()
        self.missing = Missing()
        self.recheck_after: float | None = None
        """Seconds after which to look again at what is missing; None if a watch tells when it is there."""

    def _follow(self, targets: Iterable[Target]) -> None:
        self._targets.update(targets)
        self._world.references.set(self._request, self._targets)

    def refuse_name_in_use(self) -> None:
        """Follow the resources of other groups that have the same name. Raises SpecError if one of them is older."""
        rivals = self._world.rivals(self._request)
        self._follow({self._world.target(self._request)} if rivals else ())
        for kind, rival in rivals:
            if self._world.find(*self._world.target(self._request)) is rival:
                name = f"{kind.kind}/{rival.meta.name} of {kind.group} has the same name and is older"
                raise SpecError("metadata.name", f"{name}; this resource is ignored; rename or delete it")

    def referents(self) -> dict[Ref, ResolvedRef]:
        """Return what the resources publish that the spec refers to."""
        referents: dict[Ref, ResolvedRef] = {}
        for path, ref in references(self._spec):
            namespace = ref.namespace_in(self._request.namespace)
            self._follow([(ref.kind, namespace, ref.name)])
            resource = self._world.find(ref.kind, namespace, ref.name)
            if namespace != self._request.namespace and not self._is_allowed(resource):
                self.missing.absent.append(self._not_allowed(path, ref))
                continue
            if resource is None and (
                before := self._world.published_before(ref.kind, self._request.namespace, ref.name)
            ):
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
                self.missing.absent.append(f"{path}: there is no {ref.kind} {ref.name!r} in this namespace")
                continue
            published = self._world.published(resource)
            if not published:
                self.missing.unpublished.append(f"waiting for {ref.kind}/{ref.name} to publish its address")
            verdict = referent_verdict(resource.decode())
            # That resource reports its own failure; here it ends by itself once that one is ready.
            referents[ref] = ResolvedRef(
                published,
                verdict if verdict.ready else waiting(verdict.message, "Waiting"),
                "" if namespace == self._request.namespace else namespace,
            )
        return referents

    def _is_allowed(self, resource: Cached | None) -> bool:
        """Return True if a resource of another namespace exists and allows this one to use it."""
        kind = self._world.resource(self._request.kind).kind
        return resource is not None and allows(
            resource.meta.annotations, kind, self._request.name, namespace=self._request.namespace
        )

    def _not_allowed(self, path: str, ref: Ref) -> str:
        """Return the same message whether the resource exists or not: what is in another namespace is not told."""
        namespace, kind = ref.namespace_in(self._request.namespace), self._world.resource(self._request.kind).kind
        if not self._world.serves(namespace):
            return (
                f"{path}: the operator does not serve namespace {namespace!r}; ask the operator's administrator "
                f"to add it"
            )
        entry = f"{self._request.namespace}/{kind}/{self._request.name}"
        return (
            f"{path}: namespace {namespace!r} has no {ref.kind} {ref.name!r} that allows {entry}. An "
            f"administrator there who trusts its author can add {entry} to the annotation {ALLOWED_RESOURCES}"
        )

    def dependency_verdicts(self) -> dict[Dependency, Verdict]:
        """Return how far the conditions of other resources are that the spec waits for."""
        verdicts: dict[Dependency, Verdict] = {}
        for _, dep in dependencies(self._spec):
            self._follow((kind, self._request.namespace, dep.name) for kind in (dep.kind, condition_kind(dep)))
            resource = self._world.find(dep.kind, self._request.namespace, dep.name)
            verdicts[dep] = dependency_verdict(resource.decode() if resource else None, dep)
        return verdicts

    async def named_secrets(self) -> dict[str, Cached]:
        """Return the Secrets that the spec names, by their names. Raises Transient."""
        secret_refs = [*secret_references(self._spec), *whole_secrets(self._spec), *_orders(self._request, self._spec)]
        self._follow(("Secret", self._request.namespace, ref.name) for _, ref in secret_refs)
        by_name: dict[str, Cached] = {}
        for path, ref in secret_refs:
            secret = await self._world.secret(self._request.namespace, ref.name) if ref.name not in by_name else None
            if secret is not None:
                by_name[ref.name] = secret
            if ref.name not in by_name and isinstance(ref, OptionalSecretRef):
                continue
            if ref.name not in by_name:
                self.missing.absent.append(f"{path}{ref.field}: there is no Secret {ref.name!r} in this namespace")
            elif isinstance(ref, SecretRef):
                continue
            elif fault := key_fault(path, ref, secret_data(by_name[ref.name].decode())):
                self.missing.absent.append(str(fault))
        return by_name

    async def check_sharing(self, sharing: SecretSharing, named_secrets: Mapping[str, Cached]) -> None:
        """Note the Secrets that the operator keeps for other resources. Raises Transient."""
        kind = self._world.resource(self._request.kind)
        findings = await sharing.examine(kind, self._owner, self._spec, named_secrets)
        self.missing.refused += findings.refused
        self.missing.unpublished += findings.waiting
        self._follow(findings.targets)
        if findings.unplanned:
            self.recheck_after = _LOOK_AGAIN

    def check_account(self, refs: Mapping[Ref, ResolvedRef], named_secrets: Mapping[str, Cached]) -> None:
        """Note the passwords of an account that must not be sent to its external server."""
        kind = self._world.resource(self._request.kind)
        refused, waits_for = account_refusals(self._world, kind, self._owner, self._spec, refs, named_secrets)
        self.missing.refused += refused
        self.missing.unpublished += waits_for
        if waits_for:
            self.recheck_after = _LOOK_AGAIN

    async def published_secrets(
        self, refs: Mapping[Ref, ResolvedRef], shared: Mapping[str, Sequence[str]], *, admin: bool
    ) -> dict[str, Mapping[str, str]]:
        """Return the Secrets that the contracts name: `<what>Secret` publishes the name of one. `shared` are the
        patterns of the names of Secrets that resources share, by role. Raises Transient.
        """
        publishers = {
            (ref.namespace_in(self._request.namespace), name): ref
            for ref, resolved in refs.items()
            for key, name in resolved.published.items()
            if key.endswith("Secret") and (admin or key != ADMIN_SECRET)
        }
        self._follow(("Secret", *each) for each in publishers)
        contents: dict[str, Mapping[str, str]] = {}
        for (namespace, name), ref in publishers.items():
            secret = await self._world.secret(namespace, name)
            is_far = namespace != self._request.namespace
            if secret is None or (is_far and not _is_shared(secret, ref, shared)):
                self.missing.unpublished.append(f"waiting for Secret/{name} of {ref.kind}/{ref.name}")
            else:
                contents[f"{namespace}/{name}" if is_far else name] = secret_data(secret.decode())
        return contents


def _orders(request: Request, spec: Model) -> list[tuple[str, OptionalSecretRef]]:
    """Return references to the Secrets that order a service to replace its passwords, whatever writes them."""
    names = [order_name(request.name, sort) for sort in SORTS] if isinstance(spec, ServiceSpec) else []
    return [("", OptionalSecretRef(name=name)) for name in names]


def _is_shared(secret: Cached, ref: Ref, shared: Mapping[str, Sequence[str]]) -> bool:
    """Return True if a Secret of another namespace is one that the resource, which names it, shares. A status may
    name any, and a user who may write a status need not be allowed to read Secrets.
    """
    names = {fitting(pattern.format(name=ref.name)) for pattern in shared.get(ref.kind, ())}
    is_its_own = secret.meta.owner_labels[1:] == (ref.kind.lower(), fitting(ref.name))
    return is_its_own and secret.meta.name in names
