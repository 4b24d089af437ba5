"""What a plan may look at, collected before it is made; what is missing is found all at once."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Iterator, Mapping
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
from ..kube import MANAGED_BY, WATCHED, awaited, own, secret_data
from ..parts import SORTS, order_name
from ..plan import (
    DRAWN,
    NO_PERMISSIONS,
    Context,
    InstalledKinds,
    Node,
    Object,
    Permissions,
    Referent,
    Release,
    SpecError,
    Verdict,
    failed,
    waiting,
)
from .client import not_permitted
from .kinds import SECRET, Kind
from .permits import account_refusals, refusals
from .plain_text import plain_text
from .registry import Releases
from .store import Cached, Request, Store
from .world import Target, World, watched

ADMIN_SECRET = "adminSecret"  # noqa: S105  (a key of the contract, not a secret)

_NO_RELEASE = Release("", "", {})
_PLACEHOLDER = b'"%b"' % base64.b64encode(DRAWN.encode())


def parse(resource: Resource[Any], live: Object) -> Model:
    """The spec as a typed value. Raises SpecError with the path of each field that is wrong."""
    try:
        return cast("Model", resource.spec.model_validate(live.get("spec") or {}))
    except pydantic.ValidationError as error:
        # Without the input: it may hold a secret.
        wrong = [(_path(entry["loc"]), entry["msg"]) for entry in error.errors(include_input=False, include_url=False)]
        raise SpecError(*wrong[0], *wrong[1:]) from None


def _path(location: tuple[int | str, ...]) -> str:
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


@dataclass
class Missing:
    """Inputs a plan cannot do without."""

    absent: list[str] = field(default_factory=list[str])
    unpublished: list[str] = field(default_factory=list[str])
    refused: list[str] = field(default_factory=list[str])
    """What would be done with Secrets and is not allowed."""

    @property
    def verdict(self) -> Verdict | None:
        """All of them in one verdict; what does not exist weighs more than what has not reported yet."""
        if self.refused:
            text = "; ".join([*self.refused, *self.absent, *self.unpublished])
            return failed(text, SpecError.reason, incomplete=True)
        if self.absent:
            return failed("; ".join([*self.absent, *self.unpublished]), "MissingReference", incomplete=True)
        return waiting("; ".join(self.unpublished)) if self.unpublished else None


class _Nodes(Mapping[str, Node]):
    """Nodes as plans see them. Made when asked for: most ask for one of thousands, and others for none."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, name: str) -> Node:
        if (held := self._store.get("", name)) is None:
            raise KeyError(name)
        return Node(held.meta.uid, held.meta.labels)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(held.meta.name for held in self._store))

    def __len__(self) -> int:
        return len(self._store)


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """A context, or why there is none that can be planned with."""

    context: Context[Any]
    children: tuple[tuple[Kind, Cached], ...]
    """Objects this very resource owns or retains."""
    missing: Verdict | None


class Gatherer:
    """Collects contexts; the only place that reads the clock and draws passwords."""

    def __init__(
        self,
        world: World,
        releases: Releases | None = None,
        domain: str = "cluster.local",
        operator_namespace: str = MANAGED_BY,
        permissions: Permissions = NO_PERMISSIONS,
    ) -> None:
        self._world = world
        self._releases = releases
        self._domain = domain
        self._operator_namespace = operator_namespace
        self._permissions = permissions

    async def gather(self, resource: Resource[Any], held: Cached, spec: Model, *, admin: bool = False) -> Gathered:
        """The world around one resource, with the Secrets its referents publish; the admin's only with `admin`.

        Raises SpecError for an unknown release and for a name that is taken, Transient when a Secret could not be read.
        """
        kind = Kind.of(resource)
        request = Request(kind.handle, held.meta.namespace, held.meta.name)
        missing, targets = Missing(), self._alone(request, held)
        refs = self._referents(request, spec, missing, targets)
        waits = self._awaited(request, spec, targets)
        named = await self._secrets(request, spec, missing, targets)
        missing.refused += refusals(spec, named, request.namespace)
        data: dict[str, Mapping[str, str]] = {name: secret_data(each.decode()) for name, each in named.items()}
        plain = plain_text(spec, data, request.namespace, self._domain, self._permissions)
        missing.refused += [f"{path}: {text}" for path, text in plain]
        if admin:
            refused, waits_for = account_refusals(self._world, kind, held, spec, refs, named)
            missing.refused += refused
            missing.unpublished += waits_for
        data |= await self._published_secrets(request, refs, missing, targets, admin=admin)
        # Before what was read can change: whoever uses an object is woken by its next change.
        children = tuple(self._children(request, held))
        # At once after they were read: one of them may have gone for want of room since the pass began.
        self._world.check_complete(request)
        refuse_placeholders(children)
        context = Context(
            kind=kind.role,
            owner=held.meta.name,
            namespace=held.meta.namespace,
            spec=spec,
            release=self._releases(spec) if self._releases and not admin else _NO_RELEASE,
            refs=refs,
            awaited=waits,
            secrets=data,
            children={(kind.handle, child.meta.name): child.decode() for kind, child in children},
            lost={item.meta.name: item.decode() for item in self._world.stores[SECRET].lost(kind.role, *request[1:])},
            pods=[pod.decode() for pod in self._pods(request) if WATCHED in pod.meta.labels],
            nodes=_Nodes(self._world.nodes),
            generation=held.meta.generation,
            annotations=held.meta.annotations,
            now=datetime.now(UTC),
            draw=lambda: secrets.token_urlsafe(24),
            domain=self._domain,
            operator_namespace=self._operator_namespace,
            installed_kinds=self._installed_kinds(held.meta.namespace),
            permissions=self._permissions,
        )
        return Gathered(context=context, children=children, missing=missing.verdict)

    def _installed_kinds(self, namespace: str) -> InstalledKinds:
        forbidden = self._world.forbidden(namespace)
        reasons = {name: not_permitted(kind) for kind in forbidden for name in (kind.handle, kind.versioned)}
        return InstalledKinds(self._world.served, reasons)

    def forget(self, request: Request) -> None:
        """The resource is gone; nothing wakes it anymore."""
        self._world.users.set(request, ())

    def _alone(self, request: Request, held: Cached) -> set[Target]:
        """What tells of the end of another that is called the same. Raises SpecError where that one came first."""
        rivals = self._world.rivals(request)
        targets = {self._world.target(request)} if rivals else set[Target]()
        self._world.users.set(request, targets)
        for kind, other in rivals:
            if self._world.find(*self._world.target(request)) is other:
                what = f"{kind.kind}/{other.meta.name} of {kind.group} is called the same and was here first"
                raise SpecError("metadata.name", f"{what}, so that nothing is made of this one; rename or delete it")
        return targets

    def _referents(self, request: Request, spec: Model, missing: Missing, targets: set[Target]) -> dict[Ref, Referent]:
        found: dict[Ref, Referent] = {}
        for path, ref in references(spec):
            targets.add((ref.kind, request.namespace, ref.name))
            self._world.users.set(request, targets)
            held = self._world.find(ref.kind, request.namespace, ref.name)
            if held is None and (before := self._world.published_before(ref.kind, request.namespace, ref.name)):
                # What is planned without it, and with it a moment later, would replace pods twice.
                found[ref] = Referent(before, waiting(f"waiting for {ref.kind}/{ref.name} to come back", "Waiting"))
                continue
            if ref.optional and (held is None or not self._world.published(held)):
                continue
            if held is None:
                missing.absent.append(f"{path}: there is no {ref.kind} {ref.name!r} in this namespace")
                continue
            published = self._world.published(held)
            if not published:
                missing.unpublished.append(f"waiting for {ref.kind}/{ref.name} to publish its address")
            verdict = own(held.decode())
            # What is wrong there is told there; here it gets better by itself once it is.
            found[ref] = Referent(published, verdict if verdict.ready else waiting(verdict.message, "Waiting"))
        return found

    def _awaited(self, request: Request, spec: Model, targets: set[Target]) -> dict[Dependency, Verdict]:
        found: dict[Dependency, Verdict] = {}
        for _, wanted in dependencies(spec):
            targets.update((kind, request.namespace, wanted.name) for kind in (wanted.kind, watched(wanted)))
            self._world.users.set(request, targets)
            held = self._world.find(wanted.kind, request.namespace, wanted.name)
            found[wanted] = awaited(held.decode() if held else None, wanted)
        return found

    async def _secrets(
        self, request: Request, spec: Model, missing: Missing, targets: set[Target]
    ) -> dict[str, Cached]:
        wanted = [*secret_references(spec), *whole_secrets(spec), *_orders(request, spec)]
        targets.update(("Secret", request.namespace, ref.name) for _, ref in wanted)
        self._world.users.set(request, targets)
        found: dict[str, Cached] = {}
        for path, ref in wanted:
            held = await self._world.secret(request.namespace, ref.name) if ref.name not in found else None
            if held is not None:
                found[ref.name] = held
            if ref.name not in found and isinstance(ref, OptionalSecretRef):
                continue
            if ref.name not in found:
                missing.absent.append(f"{path}{ref.field}: there is no Secret {ref.name!r} in this namespace")
            elif isinstance(ref, SecretRef):
                continue
            elif (value := secret_data(found[ref.name].decode()).get(ref.key)) is None:
                missing.absent.append(f"{path}.key: Secret {ref.name!r} has no key {ref.key!r}")
            elif not value.isprintable():
                missing.absent.append(f"{path}.key: {ref.key!r} of Secret {ref.name!r} is no text of one line")
        return found

    async def _published_secrets(
        self, request: Request, refs: Mapping[Ref, Referent], missing: Missing, targets: set[Target], *, admin: bool
    ) -> dict[str, Mapping[str, str]]:
        """Secrets the contracts name: `<what>Secret` publishes the name of one."""
        names = {
            name: f"{ref.kind}/{ref.name}"
            for ref, referent in refs.items()
            for key, name in referent.published.items()
            if key.endswith("Secret") and (admin or key != ADMIN_SECRET)
        }
        targets.update(("Secret", request.namespace, name) for name in names)
        self._world.users.set(request, targets)
        found: dict[str, Mapping[str, str]] = {}
        for name, referent in names.items():
            held = await self._world.secret(request.namespace, name)
            if held is None:
                missing.unpublished.append(f"waiting for Secret/{name} of {referent}")
            else:
                found[name] = secret_data(held.decode())
        return found

    def _pods(self, request: Request) -> list[Cached]:
        role = self._world.resource(request.kind).role
        return self._world.pods.owned(request.namespace, role, request.name)

    def _children(self, request: Request, held: Cached) -> list[tuple[Kind, Cached]]:
        return [(kind, child) for kind, child in self._world.children(request) if _belongs(child, held)]


def _orders(request: Request, spec: Model) -> list[tuple[str, OptionalSecretRef]]:
    """Where a service is told to replace its passwords, by whoever tells it."""
    names = [order_name(request.name, sort) for sort in SORTS] if isinstance(spec, ServiceSpec) else []
    return [("", OptionalSecretRef(name=name)) for name in names]


def _belongs(child: Cached, owner: Cached) -> bool:
    """What nobody controls belongs to whom its labels name: it was retained or orphaned and outlived an earlier owner
    of that name, or somebody took its owner references. What is in it must be known, or passwords would be drawn anew.
    """
    controller = child.meta.controller
    return controller is None or controller.uid == owner.meta.uid


def refuse_placeholders(children: Iterable[tuple[Kind, Cached]]) -> None:
    """Raises SpecError for a Secret of passwords that everybody knows: somebody applied what `render` prints."""
    for kind, child in children:
        if kind is SECRET and _PLACEHOLDER in child.raw:
            message = (
                "holds a placeholder of `openstack-operator render`; delete it, and the operator draws new values. "
                "Apply your own manifests alone, not what render prints"
            )
            raise SpecError(f"Secret/{child.meta.name}", message)
