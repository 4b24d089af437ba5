"""Inputs of plans, collected before planning; all missing inputs are found at once."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pydantic

from ...api import Model, Resource
from ...kube import MANAGED_BY, secret_data
from ...plan import (
    NO_PERMISSIONS,
    NO_RELEASE,
    PLACEHOLDER,
    Context,
    InstalledKinds,
    Object,
    Permissions,
    Releases,
    Service,
    SpecError,
    Verdict,
)
from ..cache.entries import Cached, Request
from ..cache.nodes import Nodes
from ..cache.trimmed_pods import seen_by_plans, without_image
from ..cache.world import World
from ..clock import now
from ..guards.judgement import spec_faults
from ..guards.secret_sharing import SecretSharing
from ..kubernetes.errors import not_permitted
from ..kubernetes.kinds import SECRET, Kind
from ..rollout.running_release import running_release
from .inputs import Inputs

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
        inputs = Inputs(self._world, request, owner, spec)
        inputs.refuse_name_in_use()
        refs, waits = inputs.referents(), inputs.dependency_verdicts()
        named_secrets = await inputs.named_secrets()
        await inputs.check_sharing(self._sharing, named_secrets)
        faults = spec_faults(spec, named_secrets, request.namespace, self._domain, self._permissions)
        inputs.missing.refused += map(str, faults)
        data: dict[str, Mapping[str, str]] = {name: secret_data(each.decode()) for name, each in named_secrets.items()}
        if admin:
            inputs.check_account(refs, named_secrets)
        data |= await inputs.published_secrets(refs, self._shared, admin=admin)
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
            now=now(),
            draw=lambda: secrets.token_urlsafe(24),
            domain=self._domain,
            is_ipv6=self._is_ipv6,
            operator_namespace=self._operator_namespace,
            kinds=self._world.catalog.types,
            installed_kinds=self._installed_kinds(owner.meta.namespace),
            servers=self._servers,
            running_release=running_release(owner, children) if resource.has_release else "",
            permissions=self._permissions,
        )
        return Gathered(
            context=context, children=children, missing=inputs.missing.verdict, recheck_after=inputs.recheck_after
        )

    def _installed_kinds(self, namespace: str) -> InstalledKinds:
        forbidden = self._world.forbidden_kinds(namespace)
        reasons = {name: not_permitted(kind) for kind in forbidden for name in (kind.handle, kind.versioned)}
        return InstalledKinds(self._world.installed_kinds, reasons)

    def forget(self, request: Request) -> None:
        """Forget the references of a resource that is gone; nothing wakes it anymore."""
        self._world.references.set(request, ())

    def _pods(self, request: Request) -> list[Cached]:
        role = self._world.resource(request.kind).role
        return self._world.pods.owned(request.namespace, role, request.name)

    def _children(self, request: Request, owner: Cached) -> list[tuple[Kind, Cached]]:
        return [(kind, child) for kind, child in self._world.children(request) if _belongs(child, owner)]


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
                "holds a placeholder of `openstack-operator render`; delete it, and the operator generates "
                "new values. Apply your own manifests, not the output of render"
            )
            raise SpecError(f"Secret/{child.meta.name}", message)
