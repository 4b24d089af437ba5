"""Objects that the operator would create, planned without a cluster."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ..api import (
    AuthoritySecretRef,
    Model,
    OptionalSecretRef,
    Ref,
    Resource,
    SecretFileRef,
    SecretRef,
    dependencies,
    handle,
    logins,
    references,
    secret_references,
    secret_uses,
    whole_secrets,
)
from ..kube import Object, secret_data
from ..plan import (
    NO_PERMISSIONS,
    PLACEHOLDER,
    Actuator,
    Context,
    InstalledKinds,
    MissingReference,
    Permissions,
    Plan,
    Releases,
    ResolvedRef,
    Service,
    SpecError,
    allows,
    key_placeholder,
    with_entry,
)
from ..planned import Id, NullReader, Planned, Reader, failures
from ..runtime.cache.entries import Cached, entry
from ..runtime.guards.judgement import key_fault, spec_faults
from ..runtime.kubernetes.kinds import SECRET
from ..runtime.reconcile.gather import parse

_INDEPENDENT = frozenset({"PKI", "CephStorage"})
"""Kinds whose resources need no service."""


CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
"""Time at which a plan is made unless another one is named, so that equal manifests give equal objects."""


class OfflineCluster:
    """The cluster as it would be: resources of ours by name, each planned once.

    A reference to a resource that is in none of the manifests resolves to that resource with defaults.
    """

    def __init__(
        self,
        services: Iterable[Service],
        actuators: Iterable[Actuator],
        releases: Releases,
        *,
        password: str = PLACEHOLDER,
        served: Iterable[str] | InstalledKinds = (),
        domain: str = "cluster.local",
        permissions: Permissions = NO_PERMISSIONS,
        reader: Reader | None = None,
    ) -> None:
        """Take as `served` the handles of the external kinds that this cluster has. A `reader` gets all problems, and
        the rest is planned; without one, the first problem is raised.
        """
        self._services = {service.resource.handle: service for service in services}
        resources = (*(service.resource for service in self._services.values()), *(each.resource for each in actuators))
        self._servers = {each.resource.role: each.listens for each in self._services.values() if each.listens}
        self._resources: Mapping[str, Resource[Any]] = {resource.handle: resource for resource in resources}
        self._releases = releases
        self._password = password
        self._installed = served if isinstance(served, InstalledKinds) else InstalledKinds(served)
        self._domain = domain
        self._permissions = permissions
        self._reader = reader
        self.now = CLOCK
        """Time at which certificates are judged, and made."""
        self._manifests: dict[Id, Object] = {}
        self._secrets: dict[tuple[str, str], dict[str, str]] = {}
        self._user_secrets: dict[tuple[str, str], Cached] = {}
        """Secrets among the manifests, whose annotations and content are known."""
        self._fields_without_secret: dict[Id, dict[str, tuple[str, str]]] = {}
        """References to a Secret which is nowhere, by the resource: its path, the field with the name, and that."""
        self._planned: dict[Id, Planned | None] = {}
        self._pending: list[Id] = []
        self._defaults: dict[Id, Mapping[str, str]] = {}
        self.made_from: dict[Id, tuple[Id, Object]] = {}
        """Owner of the plan, and the resource's object, by resource in a plan."""

    def render(self, manifests: Iterable[Object], namespace: str = "default") -> Iterator[Planned]:
        """Yield every resource of the manifests, and after it every one of ours made for it, with its plan.

        Raises SpecError for a spec the operator would refuse, if there is no reader.
        """
        ids = [id_ for manifest in manifests if (id_ := self._add(manifest, namespace))]
        # Whole clouds first: what others refer to may be made by them.
        ids.sort(key=lambda id_: not self._makes_resources(id_.kind))
        for id_ in ids:
            yield from self._with_children(id_)

    def context(self, manifest: Object, namespace: str = "default") -> Context[Any]:
        """Return what the plan of a resource would look at. Raises SpecError for a spec its model refuses."""
        id_ = self._add(manifest, namespace)
        if id_ is None:
            raise LookupError(f"{manifest['kind']} is not a kind of this operator")
        return self.context_of(id_)

    def plan_defaults(self, id_: Id) -> Planned | None:
        """Return a resource with nothing but a name; None if it would be refused."""
        self._manifests[id_] = {"metadata": {"name": id_.name}}
        return self._plan(id_)

    def has_secret(self, namespace: str, name: str) -> bool:
        """Return True if a Secret is among the manifests or in a plan."""
        return (namespace, name) in self._secrets

    def has_resource(self, kind: str, namespace: str, name: str) -> bool:
        """Return True if a resource of ours is among the manifests or in a plan; `kind` is its name in references."""
        return any(Id(each, namespace, name) in self._known_ids for each in self._by_role(kind))

    @property
    def _known_ids(self) -> set[Id]:
        return {id_ for id_, manifest in self._manifests.items() if "kind" in manifest}

    def _by_role(self, role: str) -> list[str]:
        return [each for each, resource in self._resources.items() if resource.role == role]

    def _makes_resources(self, kind: str) -> bool:
        return kind in self._services and self._services[kind].teardown is True

    def _add(self, manifest: Object, namespace: str) -> Id | None:
        metadata = manifest["metadata"]
        id_ = Id(
            handle(manifest.get("apiVersion", ""), manifest["kind"]),
            metadata.get("namespace", namespace),
            metadata["name"],
        )
        if id_.kind == "Secret":
            data = secret_data(manifest) | (manifest.get("stringData") or {})
            self._secrets[id_.namespace, id_.name] = data
            encoded = {name: b64encode(text.encode(errors="surrogateescape")).decode() for name, text in data.items()}
            self._user_secrets[id_.namespace, id_.name] = entry({**manifest, "data": encoded}, SECRET)
        if id_.kind not in self._resources:
            return None
        self._manifests[id_] = manifest
        return id_

    def _with_children(self, id_: Id) -> Iterator[Planned]:
        """Yield the resource and every one of ours its plan makes, at any depth."""
        planned = self._plan(id_)
        if planned is None:
            return
        yield planned
        # All are known before the first is planned, since they refer to each other.
        for child in [child for obj in planned.objects if (child := self._add_child(id_, obj))]:
            yield from self._with_children(child)

    def _add_child(self, parent: Id, obj: Object) -> Id | None:
        child = self._add(obj, parent.namespace)
        if child and self._reader:
            self.made_from[child] = parent, obj
            if problems := self._reader.check(child, obj):
                self._reader.refused(child, problems)
                self._planned[child] = None
        return child

    def _plan(self, id_: Id) -> Planned | None:
        if id_ in self._planned:
            return self._planned[id_]
        if id_ in self._pending:
            circle = " → ".join(str(step) for step in (*self._pending[self._pending.index(id_) :], id_))
            raise MissingReference("spec", f"these wait for each other: {circle}")
        self._pending.append(id_)
        try:
            self._planned[id_] = Planned(id_, *self._compute(id_))
        except Exception as error:
            if self._reader is None:
                raise
            if isinstance(error, SpecError):
                self._report_missing_secrets(id_, error.problems)
                if all(self._missing_secret(id_, path) for path, _ in error.problems):
                    self._reader.lacks_secret(id_)
                else:
                    self._reader.refused(id_, error.problems)
            else:
                self._reader.broken(id_, error)
            self._planned[id_] = None
        finally:
            self._pending.pop()
        return self._planned[id_]

    def _compute(self, id_: Id) -> tuple[Plan | None, Context[Any]]:
        context = self.context_of(id_)
        service = self._services.get(id_.kind)
        if service is None:
            return None, context
        if pending := [ref for ref, resolved in context.refs.items() if not resolved.published and not ref.optional]:
            if self._reader:
                self._reader.unplanned(id_, [(path, ref) for path, ref in references(context.spec) if ref in pending])
            return None, context
        plan = self._with_assumptions(id_, service, context)
        problems = failures(plan)
        self._report_missing_secrets(id_, problems)
        other_problems = [(path, text) for path, text in problems if not self._missing_secret(id_, path)]
        if self._reader and other_problems:
            self._reader.refused(id_, other_problems)
        for obj in plan.objects:
            if obj["kind"] == "Secret":
                self._secrets[id_.namespace, obj["metadata"]["name"]] = secret_data(obj)
        return plan, context

    def _missing_secret(self, id_: Id, path: str) -> tuple[str, str] | None:
        """Return the Secret because of which a field has a problem, if it is nowhere: the path at which it is named,
        and `Secret/name`. A cluster may have it. None for problems of the field itself.
        """
        for ref_path, (field, name) in self._fields_without_secret.get(id_, {}).items():
            if path == ref_path or path.startswith(f"{ref_path}."):
                return f"{ref_path}{field}", f"Secret/{name}"
        return None

    def _report_missing_secrets(self, id_: Id, problems: Sequence[tuple[str, str]]) -> None:
        """Report the Secrets because of which fields have problems, also those that are optional."""
        for path, _ in problems:
            if self._reader and (missing := self._missing_secret(id_, path)):
                self._reader.missing_object(id_, *missing)

    def _with_assumptions(self, id_: Id, service: Service, context: Context[Any]) -> Plan:
        """Return the plan, made again as long as other operators would add objects to the cluster that it waits for."""
        plan = service.make_plan(context)
        while self._reader and (added := self._reader.assume(id_, context, plan)):
            context = replace(context, children={**context.children, **added})
            plan = service.make_plan(context)
        return plan

    def context_of(self, id_: Id) -> Context[Any]:
        """Return what the plan of a resource looks at. Raises SpecError for a spec its model refuses."""
        spec = parse(self._resources[id_.kind], self._manifests[id_])
        permissions = self._reporting_permissions(id_)
        self._judge(id_, spec, permissions)
        # Other optional references are left out: their resources may need this one.
        refs = {
            ref: self._referent(id_, path, ref)
            for path, ref in references(spec)
            if not ref.optional or (ref.kind in _INDEPENDENT and self.has_resource(ref.kind, id_.namespace, ref.name))
        }
        for path, dependency in dependencies(spec):
            self._report_missing(id_, f"{path}.name", dependency.kind, dependency.name)
        return Context(
            kind=self._resources[id_.kind].role,
            owner=id_.name,
            namespace=id_.namespace,
            spec=spec,
            release=self._releases(spec),
            releases=self._releases,
            refs=refs,
            secrets=self._contents(id_, spec, refs),
            annotations=self._manifests[id_]["metadata"].get("annotations") or {},
            now=self.now,
            draw=lambda: self._password,
            domain=self._domain,
            installed_kinds=self._installed,
            servers=self._servers,
            permissions=permissions,
        )

    def _judge(self, id_: Id, spec: Model, permissions: Permissions) -> None:
        """Raise SpecError for what the operator refuses of a spec. Report what its administrator may allow."""
        names = {use.name for use in secret_uses(spec)}
        secrets = {
            name: each
            for (namespace, name), each in self._user_secrets.items()
            if namespace == id_.namespace and name in names
        }
        faults = [*spec_faults(spec, secrets, id_.namespace, self._domain, permissions)]
        for path, ref in secret_references(spec):
            if ref.name in secrets and (fault := key_fault(path, ref, secret_data(secrets[ref.name].decode()))):
                faults.append(fault)
        for fault in faults:
            if fault.is_permission:
                permissions.refuse(fault.path, fault.text)
        if problems := [(fault.path, fault.text) for fault in faults if not fault.is_permission]:
            raise SpecError(*problems[0], *problems[1:])

    def _reporting_permissions(self, id_: Id) -> Permissions:
        """Return the permissions, with which a missing one is reported to the reader instead of raised."""
        return (
            replace(self._permissions, refuse=partial(self._reader.forbidden, id_))
            if self._reader
            else self._permissions
        )

    def _referent(self, user: Id, path: str, ref: Ref) -> ResolvedRef:
        handles = [handle for handle, service in self._services.items() if service.resource.role == ref.kind]
        if not handles:
            raise MissingReference(path, f"{user} refers to {ref.kind}/{ref.name}, a kind this operator does not serve")
        namespace = ref.namespace_in(user.namespace)
        candidates = [Id(handle, namespace, ref.name) for handle in handles]
        id_ = next((id_ for id_ in candidates if id_ in self._manifests), candidates[0])
        if namespace == user.namespace:
            self._report_missing(user, f"{path}.name", ref.kind, ref.name)
        else:
            self._report_not_allowed(user, path, id_)
        self._manifests.setdefault(id_, {"metadata": {"name": ref.name}})
        planned = self._plan(id_)
        where = "" if namespace == user.namespace else namespace
        if planned is None:
            return ResolvedRef(self._published_by_default(id_), namespace=where)
        return ResolvedRef(planned.plan.outcome.published if planned.plan else {}, namespace=where)

    def _published_by_default(self, id_: Id) -> Mapping[str, str]:
        """Return a refused resource's contract with defaults, so that mistakes in its users show, too."""
        if id_ not in self._defaults:
            self._defaults[id_] = {}
            services, reader = self._services.values(), NullReader()
            password, domain = self._password, self._domain
            cluster = OfflineCluster(services, (), self._releases, password=password, domain=domain, reader=reader)
            cluster.now = self.now
            planned = cluster.plan_defaults(id_)
            if planned is None or planned.plan is None:
                return {}
            self._defaults[id_] = planned.plan.outcome.published
            for obj in planned.objects:
                if obj["kind"] == "Secret":
                    self._secrets.setdefault((id_.namespace, obj["metadata"]["name"]), secret_data(obj))
        return self._defaults[id_]

    def _report_missing(self, user: Id, path: str, kind: str, name: str) -> None:
        if self._reader and not self.has_resource(kind, user.namespace, name):
            self._reader.missing_object(user, path, f"{kind}/{name}")

    def _report_not_allowed(self, user: Id, path: str, id_: Id) -> None:
        """Report a reference to a resource of another namespace whose manifest does not allow it, or is not here."""
        annotations = self._manifests.get(id_, {}).get("metadata", {}).get("annotations") or {}
        kind = self._resources[user.kind].kind
        if self._reader and not allows(annotations, kind, user.name, namespace=user.namespace):
            entry = with_entry(annotations, kind, user.name, namespace=user.namespace)
            self._reader.forbidden(user, path, f"{id_} of namespace {id_.namespace!r} needs the annotation {entry}")

    def _contents(self, id_: Id, spec: Any, refs: Mapping[Ref, ResolvedRef]) -> dict[str, Mapping[str, str]]:
        """Return data of the Secrets a plan may read: those the spec names, and those its referents publish."""
        contents: dict[str, Mapping[str, str]] = {}
        for path, ref in secret_references(spec):
            data = self._secret(id_, path, ref.field, ref.name)
            contents[ref.name] = {
                **contents.get(ref.name, {}),
                ref.key: data.get(ref.key, key_placeholder(ref.name, ref.key)),
            }
        for path, ref in whole_secrets(spec):
            optional = isinstance(ref, OptionalSecretRef)
            if data := self._secret(id_, path, ref.field, ref.name, optional=optional):
                contents[ref.name] = {**contents.get(ref.name, {}), **data}
            elif not self.has_secret(id_.namespace, ref.name) and (files := self._stand_ins(ref)):
                contents[ref.name] = {**files, **contents.get(ref.name, {})}
        for path, ref in logins(spec):
            self._secret(id_, path, ref.field, ref.name)
            contents.setdefault(ref.name, {key: key_placeholder(ref.name, key) for key in ref.keys})
        for resolved in refs.values():
            namespace, prefix = resolved.namespace or id_.namespace, resolved.namespace and f"{resolved.namespace}/"
            for field, name in resolved.published.items():
                if field.endswith("Secret"):
                    contents[f"{prefix}{name}"] = self._secrets.get((namespace, name), {})
        return contents

    def _stand_ins(self, ref: SecretRef) -> dict[str, str]:
        """Return texts for the files of a Secret that is nowhere; none if the field does not say which it reads."""
        reader = self._reader or NullReader()
        if not isinstance(ref, (AuthoritySecretRef, SecretFileRef)):
            return {}
        keys = [ref.file_key] if isinstance(ref, SecretFileRef) else sorted(ref.read_keys)
        return {
            key: reader.authority(ref.name, key, self.now)
            if key in ref.certificate_keys
            else key_placeholder(ref.name, key)
            for key in keys
        }

    def _secret(self, id_: Id, path: str, field: str, name: str, *, optional: bool = False) -> Mapping[str, str]:
        """Return known data of a Secret. Report one that does not exist to the reader, unless it is `optional`."""
        if self._reader and not self.has_secret(id_.namespace, name):
            self._fields_without_secret.setdefault(id_, {})[path] = field, name
            if not optional:
                self._reader.missing_object(id_, f"{path}{field}", f"Secret/{name}")
        return self._secrets.get((id_.namespace, name), {})
