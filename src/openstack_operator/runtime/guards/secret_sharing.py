"""Refusal of Secrets that the operator keeps for other resources: it reads every Secret of a namespace, and a user who
may write a resource may not be allowed to read any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError

from ...api import ANY_PURPOSE, PUBLIC_KEYS, Model, SecretUse, secret_uses
from ...kube import MANAGED_BY, child_verdict, fitting, secret_data
from ...plan import ALLOWED_RESOURCES, Object, Service, Transient, allows, pause_reason
from ..cache.entries import Cached, Meta, Request
from ..cache.references import Target
from ..cache.world import World
from ..kubernetes.kinds import SECRET, Kind


class _User(NamedTuple):
    """A resource that names Secrets."""

    kind: Kind
    resource: Cached

    @property
    def name(self) -> str:
        return f"{self.kind.kind}/{self.resource.meta.name}"

    def is_allowed_by(self, annotations: Mapping[str, str]) -> bool:
        return allows(annotations, self.kind.kind, self.resource.meta.name)


@dataclass
class Findings:
    """Uses of Secrets that a resource may not make, or not yet."""

    refused: list[str] = field(default_factory=list[str])
    waiting: list[str] = field(default_factory=list[str])
    """Reasons to wait, as long as it is not known whether the resource may."""
    targets: set[Target] = field(default_factory=set["Target"])
    """Resources whose change may change the findings."""
    unplanned: list[str] = field(default_factory=list[str])
    """Those of them that wait for a plan, of which no watch tells."""


class SecretSharing:
    """The rule which Secrets of the operator's a field may name: stated by `Service.shares` and `Service.collects`, and
    by the purpose and the keys of each reference.
    """

    def __init__(self, world: World, services: Iterable[Service]) -> None:
        self._world = world
        self._services = {service.resource.role: service for service in services}

    async def examine(self, kind: Kind, resource: Cached, spec: Model, secrets: Mapping[str, Cached]) -> Findings:
        """Return the findings about the `secrets` that a spec names, by name. A resource that is ready with its present
        spec does not wait for the plan of its owner: it was allowed before. Raises Transient.
        """
        user, findings = _User(kind, resource), Findings()
        service = self._services.get(kind.role)
        uses = service.collects(spec) if service and service.collects else secret_uses(spec)
        for use in uses:
            if (secret := secrets.get(use.name)) and (problem := await self._problem(user, use, secret, findings)):
                findings.refused.append(f"{use.path}: {problem}")
        if findings.unplanned and child_verdict(resource.decode()).ready:
            findings.unplanned.clear()
        findings.waiting = list(dict.fromkeys([*findings.waiting, *findings.unplanned]))
        return findings

    async def _problem(
        self, user: _User, use: SecretUse, secret: Cached, findings: Findings, visited: frozenset[str] = frozenset()
    ) -> str:
        """Return why the resource may not read a Secret; empty if it may, or if that is not known yet."""
        meta = secret.meta
        if not self._is_kept(meta) or _is_owned(meta, user) or user.is_allowed_by(meta.annotations):
            return ""
        owner = self._world.last_owner(meta)
        service = self._services.get(self._world.resource(owner.kind).role) if owner else None
        if owner and service and service.collects:
            return await self._problem_of_aggregate(user, use, owner, service, findings, visited | {meta.name})
        if _is_public(use, secret) or _is_shared(use, secret.meta, owner, service):
            return ""
        is_of_one_plan = self._is_of_one_plan(user, meta)
        if is_of_one_plan is None:
            findings.unplanned.append(f"waiting for the first pass over {_name(self._world, owner)}")
        if is_of_one_plan is not False:
            return ""
        return _refusal(user, meta.name, _name(self._world, owner))

    async def _problem_of_aggregate(
        self,
        user: _User,
        use: SecretUse,
        owner: Request,
        service: Service,
        findings: Findings,
        visited: frozenset[str],
    ) -> str:
        """Return the first problem with the Secrets of which a Secret is a copy, once it is one of these alone."""
        collector = self._world.get(owner)
        findings.targets.add(self._world.target(owner))
        live = collector.decode() if collector else {}
        # One that is paused keeps a copy of what its sources were, and stays ready.
        is_paused = collector is not None and pause_reason(collector.meta.annotations) is not None
        if not live or is_paused or not child_verdict(live).ready:
            findings.waiting.append(f"waiting for {_name(self._world, owner)} to be ready")
            return ""
        for each in self._collected(service, live):
            source = None
            if each.name not in visited:
                source = await self._world.secret(owner.namespace, each.name)
                if source is None:
                    name = _name(self._world, owner)
                    findings.waiting.append(f"waiting for Secret/{each.name}, which {name} copies")
            copied = each._replace(purpose=use.purpose)
            if source and (problem := await self._problem(user, copied, source, findings, visited | {each.name})):
                return f"{_name(self._world, owner)} copies it: {problem}"
        return ""

    def _collected(self, service: Service, collector: Object) -> Sequence[SecretUse]:
        """Return the Secrets of which a resource makes a copy. Raises Transient for a spec that cannot be read, which
        another version of the operator accepted.
        """
        assert service.collects
        try:
            return service.collects(service.resource.spec.from_spec(collector.get("spec") or {}))
        except ValidationError:
            name = f"{collector['kind']}/{collector['metadata']['name']}"
            raise Transient(f"waiting for the first pass over {name}") from None

    def _is_kept(self, meta: Meta) -> bool:
        """Return True for a Secret of the operator's, also of a resource that is gone."""
        is_labeled = meta.labels.get("app.kubernetes.io/managed-by") == MANAGED_BY
        return is_labeled or bool(meta.controller and self._world.is_ours(meta.controller.handle))

    def _is_of_one_plan(self, user: _User, secret: Meta) -> bool | None:
        """Return True if one plan made the resource and the Secret, as a service makes an account and its password.
        None while that plan is not known, and once its resource is gone: every user may write labels and owner
        references.
        """
        owner = self._world.last_owner(user.resource.meta)
        if owner is None or self._target(owner) != self._target(self._world.last_owner(secret)):
            return False
        live = self._world.get(owner)
        if live is None or live.meta.deletion_timestamp is not None:
            return None
        maker = self._world.plans.maker(user.kind, user.resource.meta)
        if not maker.is_known:
            return None
        return maker.request is not None and self._world.plans.maker(SECRET, secret) == maker

    def _target(self, owner: Request | None) -> Target | None:
        role, namespace, name = self._world.target(owner) if owner else ("", "", "")
        return (role, namespace, fitting(name)) if owner else None


def _is_owned(secret: Meta, user: _User) -> bool:
    """Return True if a Secret belongs to the resource itself."""
    meta, controller = user.resource.meta, secret.controller
    if controller is not None:
        return controller.uid == meta.uid
    return secret.owner_labels == (meta.namespace, user.kind.role.lower(), fitting(meta.name))


def _is_public(use: SecretUse, secret: Cached) -> bool:
    """Return True if a field reads only certificates and authorities of a Secret."""
    keys: frozenset[Any] = use.keys if use.keys is not None else frozenset(secret_data(secret.decode()))
    return keys <= PUBLIC_KEYS


def _is_shared(use: SecretUse, secret: Meta, owner: Request | None, service: Service | None) -> bool:
    """Return True if the owner of a Secret shares it for the purpose of a field."""
    if owner is None or service is None:
        return False
    purposes = {fitting(name.format(name=owner.name)): purpose for name, purpose in service.shares.items()}
    return secret.name in purposes and use.purpose in {purposes[secret.name], ANY_PURPOSE}


def _name(world: World, owner: Request | None) -> str:
    return f"{world.resource(owner.kind).kind}/{owner.name}" if owner else "itself"


def _refusal(user: _User, secret: str, owner: str) -> str:
    # Whoever may write the resource has this text shown to administrators: no command to copy without a thought.
    return (
        f"the operator manages Secret {secret!r} for {owner}; use a Secret of your own. An administrator who "
        f"trusts the "
        f"author of {user.name} can add {user.name} to the Secret's annotation {ALLOWED_RESOURCES}"
    )
