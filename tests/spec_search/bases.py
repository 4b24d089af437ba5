"""Good specs of each kind to begin with, and the cluster that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from openstack_operator.api import CEPH_BESIDE, CLOUD_PKI, as_c5c3, references
from openstack_operator.cli.offline.schema import with_defaults
from openstack_operator.cli.render import OfflineCluster
from openstack_operator.plan import Object, Service
from openstack_operator.registry import ACTUATORS, SERVICES
from tests.toggling import LISTED, case_of, entries_for, spec_schema

from .world import NAMESPACE, PASSWORD, PERMISSIONS, RELEASES, Variant, World

CLOUD_ROLE = "OpenStackControlPlane"
_NO_FIELDS = {"case", "only", "all"}


@dataclass
class Base:
    """A spec that a resource of a kind begins with."""

    service: Service
    spec: Any
    others: Sequence[Object] = ()
    """Manifests that it names."""
    referents: dict[tuple[str, str], Mapping[str, str]] = field(
        default_factory=dict[tuple[str, str], Mapping[str, str]]
    )
    """Contracts of the resources that it refers to, by kind and name."""
    secrets: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])

    def world(self, variant: Variant = lambda _: None) -> World:
        """Return a cluster in which a resource with this spec can be ready. Raises SpecError."""
        if not self.secrets:
            _surround(self)
        world = World(self.service, variant)
        for (role, name), published in self.referents.items():
            if kind := next((each for each in world.kinds.values() if each.role == role), None):
                world.add_referent(kind, name, published)
        for name, data in self.secrets.items():
            world.add_secret(name, data)
        world.start()
        return world


@cache
def bases(handle: str) -> tuple[Base, ...]:
    """Return the specs that a kind has to begin with."""
    return tuple(_bases(next(each for each in SERVICES if each.resource.handle == handle)))


def _bases(service: Service) -> Iterator[Base]:
    resource, common = service.resource, dict[str, Any]()
    for number, entry in enumerate(entries_for(service)):
        if entry.get("provider", "").endswith("-operator"):
            # The simulated API server tells kinds apart by their plurals, which that operator's kinds have, too.
            continue
        fields = {name: value for name, value in entry.items() if name not in _NO_FIELDS}
        spec, others = case_of(service, entry["case"]) if "case" in entry else ({}, [])
        if resource.as_c5c3 and "case" not in entry:
            model = resource.spec.model_validate(fields)
            fields = as_c5c3(model, model.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True))
        if entry in LISTED["shared"]:
            # These have to be complete otherwise.
            spec = common
        elif number == 0:
            common = {**spec, **fields}
        complete = with_defaults(spec_schema(resource), {**spec, **fields})
        if resource.role == CLOUD_ROLE:
            complete = _encrypted(complete)
        yield Base(service, complete, others)


def _encrypted(cloud: Any) -> Any:
    """Return the spec of a cloud that says itself that it encrypts: else that depends on what it was before."""
    if "global" in cloud:
        return {**cloud, "global": _encrypted(cloud["global"])}
    return {**cloud, "tls": {**(cloud.get("tls") or {}), "enabled": True}}


def _surround(base: Base) -> None:
    """Find out what a spec refers to. Raises SpecError for one that cannot be planned."""
    resource = base.service.resource
    cluster = OfflineCluster(SERVICES, ACTUATORS, RELEASES, password=PASSWORD, permissions=PERMISSIONS)
    pki = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "PKI", "metadata": {"name": "pki"}}
    for planned in cluster.render([*_toggled_secrets(), *base.others, pki], NAMESPACE):
        if planned.id.name == "pki" and planned.plan:
            base.referents["PKI", "pki"] = planned.plan.outcome.published
            base.secrets |= planned.context.secrets
    name = resource.role.lower()
    manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
    context = cluster.context({**manifest, "spec": base.spec}, NAMESPACE)
    for _, ref in references(context.spec):
        resolved = context.refs.get(ref)
        if resolved is None or ref in (CLOUD_PKI, CEPH_BESIDE) or ref.namespace_in(NAMESPACE) != NAMESPACE:
            continue
        base.referents[ref.kind, ref.name] = resolved.published
    base.secrets |= {name: data for name, data in context.secrets.items() if data}
    base.secrets |= {name: LISTED["secrets"][name] for name in LISTED["secrets"]}


def _toggled_secrets() -> list[Object]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "annotations": {"openstack.k8s.io/allowed-hosts": "*"}},
            "stringData": data,
        }
        for name, data in LISTED["secrets"].items()
    ]
