"""What the operator would create, worked out on paper: plans without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .api import Ref, Resource, handle, logins, references, secret_references, whole_secrets
from .kube import Object, secret_data
from .plan import Context, MissingReference, Plan, Referent
from .runtime.gather import parse
from .runtime.registry import Actuator, Releases, Service

DRAWN = "<drawn>"
"""Stands where the operator would draw a password."""


class Id(NamedTuple):
    """A resource of ours."""

    kind: str
    """Handle of its kind."""
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True)
class Planned:
    """A resource with what it becomes. `plan` is None for what an actuator works on, and for what nobody can tell
    without a cluster: it waits for a certificate that cert-manager makes, for one."""

    id: Id
    plan: Plan | None
    context: Context[Any]

    @property
    def objects(self) -> list[Object]:
        """Everything made for it."""
        return list(self.plan.objects) if self.plan else []


class Paper:
    """The cluster as it would be: resources of ours by name, each planned once.

    A reference to a resource that is in none of the manifests is answered as that resource would with defaults.
    """

    def __init__(
        self,
        services: Iterable[Service],
        actuators: Iterable[Actuator],
        releases: Releases,
        *,
        drawn: str = DRAWN,
        served: Iterable[str] = (),
    ) -> None:
        """`served` are handles of the kinds of others that this cluster has."""
        self._services = {service.resource.handle: service for service in services}
        resources = (*(service.resource for service in self._services.values()), *(each.resource for each in actuators))
        self._resources: Mapping[str, Resource[Any]] = {resource.handle: resource for resource in resources}
        self._releases = releases
        self._drawn = drawn
        self._served = frozenset(served)
        self._manifests: dict[Id, Object] = {}
        self._secrets: dict[tuple[str, str], dict[str, str]] = {}
        self._planned: dict[Id, Planned] = {}
        self._pending: list[Id] = []

    def render(self, manifests: Iterable[Object], namespace: str = "default") -> Iterator[Planned]:
        """Every resource of the manifests, and after it every one of ours made for it, with its plan.

        Raises SpecError for a spec the operator would refuse.
        """
        found = [id_ for manifest in manifests if (id_ := self._take(manifest, namespace))]
        # Whole clouds first: what others refer to may be made by them.
        found.sort(key=lambda id_: not self._makes_resources(id_.kind))
        for id_ in found:
            yield from self._with_children(id_)

    def context(self, manifest: Object, namespace: str = "default") -> Context[Any]:
        """What the plan of a resource would look at. Raises SpecError for a spec its model refuses."""
        id_ = self._take(manifest, namespace)
        if id_ is None:
            raise LookupError(f"{manifest['kind']} is not a kind of this operator")
        return self._context(id_)

    def _makes_resources(self, kind: str) -> bool:
        return kind in self._services and self._services[kind].teardown is True

    def _take(self, manifest: Object, namespace: str) -> Id | None:
        metadata = manifest["metadata"]
        id_ = Id(
            handle(manifest.get("apiVersion", ""), manifest["kind"]),
            metadata.get("namespace", namespace),
            metadata["name"],
        )
        if id_.kind == "Secret":
            self._secrets[id_.namespace, id_.name] = secret_data(manifest) | manifest.get("stringData", {})
        if id_.kind not in self._resources:
            return None
        self._manifests[id_] = manifest
        return id_

    def _with_children(self, id_: Id) -> Iterator[Planned]:
        """The resource and every one of ours its plan makes, at any depth."""
        planned = self._plan(id_)
        yield planned
        # All are known before the first is planned, since they refer to each other.
        for child in [child for obj in planned.objects if (child := self._take(obj, id_.namespace))]:
            yield from self._with_children(child)

    def _plan(self, id_: Id) -> Planned:
        if (done := self._planned.get(id_)) is not None:
            return done
        if id_ in self._pending:
            circle = " → ".join(str(step) for step in (*self._pending[self._pending.index(id_) :], id_))
            raise MissingReference("spec", f"these wait for each other: {circle}")
        self._pending.append(id_)
        plan, context = self._worked_out(id_)
        self._pending.pop()
        self._planned[id_] = Planned(id_, plan, context)
        return self._planned[id_]

    def _worked_out(self, id_: Id) -> tuple[Plan | None, Context[Any]]:
        context = self._context(id_)
        service = self._services.get(id_.kind)
        if service is None:
            return None, context
        if not all(referent.published for referent in context.refs.values()):
            return None, context
        plan = service.plan(context)
        for obj in plan.objects:
            if obj["kind"] == "Secret":
                self._secrets[id_.namespace, obj["metadata"]["name"]] = secret_data(obj)
        return plan, context

    def _context(self, id_: Id) -> Context[Any]:
        spec = parse(self._resources[id_.kind], self._manifests[id_])
        # What nothing waits for is left out: it may itself need what is rendered here.
        refs = {ref: self._referent(id_, ref) for _, ref in references(spec) if not ref.optional}
        return Context(
            kind=self._resources[id_.kind].role,
            owner=id_.name,
            namespace=id_.namespace,
            spec=spec,
            release=self._releases(spec),
            refs=refs,
            secrets=self._contents(id_, spec, refs),
            draw=lambda: self._drawn,
            served=self._served,
        )

    def _referent(self, user: Id, ref: Ref) -> Referent:
        as_good = [handle for handle, service in self._services.items() if service.resource.role == ref.kind]
        if not as_good:
            raise MissingReference(
                "spec", f"{user} refers to {ref.kind}/{ref.name}, a kind this operator does not serve"
            )
        named = [Id(handle, user.namespace, ref.name) for handle in as_good]
        id_ = next((id_ for id_ in named if id_ in self._manifests), named[0])
        self._manifests.setdefault(id_, {"metadata": {"name": ref.name}})
        planned = self._plan(id_)
        return Referent(planned.plan.outcome.published if planned.plan else {})

    def _contents(self, id_: Id, spec: Any, refs: Mapping[Ref, Referent]) -> dict[str, Mapping[str, str]]:
        """Data of the Secrets a plan may read: those the spec names, and those its referents publish."""
        found: dict[str, Mapping[str, str]] = {}
        for _, ref in secret_references(spec):
            known = self._secrets.get((id_.namespace, ref.name), {})
            found[ref.name] = {**found.get(ref.name, {}), ref.key: known.get(ref.key, f"<{ref.name}.{ref.key}>")}
        for _, ref in whole_secrets(spec):
            if known := self._secrets.get((id_.namespace, ref.name)):
                found[ref.name] = known
        for _, ref in logins(spec):
            found.setdefault(ref.name, {key: f"<{ref.name}.{key}>" for key in ref.keys})
        for referent in refs.values():
            for field, name in referent.published.items():
                if field.endswith("Secret"):
                    found[name] = self._secrets.get((id_.namespace, name), {})
        return found
