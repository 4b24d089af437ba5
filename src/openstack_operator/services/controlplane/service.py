"""OpenStackControlPlane: one resource a service, all made at once; their references put them in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic.alias_generators import to_camel, to_snake

from ... import kube, parts
from ...api import ServiceMessaging, ServiceSpec, Template, UsesMessaging, UsesTLS, as_c5c3, handle
from ...plan import Context, Group, Key, NotBuilt, Plan, State, Step, Verdict, condition_type, waiting
from .encryption import CONDITION, Encryption, authorities, encryption
from .gaps import gaps
from .model import ELSEWHERE, ControlPlaneSpec
from .monitoring import monitoring


@dataclass(frozen=True)
class Member:
    """A service of the cloud."""

    field: str
    """Its template in the spec, and the name of its resource: what the references of the others point at by default."""
    kind: str
    phase: str
    """What the cloud is still missing while this service is not ready."""
    label: str = ""
    """The condition it reports as; unset takes the kind."""

    @property
    def condition(self) -> str:
        return self.label or self.kind


MEMBERS = (
    Member("mariadb", "MariaDB", "Infrastructure"),
    Member("rabbitmq", "RabbitMQ", "Infrastructure"),
    Member("memcached", "Memcached", "Infrastructure"),
    Member("valkey", "Valkey", "Infrastructure"),
    Member("etcd", "Etcd", "Infrastructure"),
    Member("ceph", "CephStorage", "Infrastructure"),
    Member("keystone", "Keystone", "Identity"),
    Member("glance", "Glance", "CoreServices"),
    Member("placement", "Placement", "CoreServices"),
    Member("ovn", "OVNNetwork", "CoreServices", "OVN"),
    Member("neutron", "Neutron", "CoreServices"),
    Member("nova", "Nova", "ComputeAndStorage"),
    Member("cinder", "Cinder", "ComputeAndStorage"),
    Member("cortex", "Cortex", "OptionalServices"),
    Member("heat", "Heat", "OptionalServices"),
    Member("horizon", "Horizon", "OptionalServices"),
    Member("tempest", "Tempest", "OptionalServices"),
)


@dataclass(frozen=True)
class Door:
    """The names by which the resources of a cloud are made."""

    groups: Mapping[str, str] = field(default_factory=dict[str, str])
    """API group by kind; openstack.k8s.io for the others."""
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where in its spec a field is, by what it is called here; in the same place where it is not named."""
    korc: str = parts.KORC_OPERATOR
    """Who keeps users and services where K-ORC is asked for."""

    def path(self, path: str) -> str:
        """The path of a field as its users write it."""
        name, dot, rest = path.removeprefix("spec.").partition(".")
        return f"spec.{self.places.get(name, name)}{dot}{rest}"

    def api(self, kind: str) -> str:
        """apiVersion of a kind."""
        return f"{self.groups[kind]}/v1alpha1" if kind in self.groups else parts.API

    def key(self, kind: str, name: str) -> Key:
        """What a resource is among the children."""
        return handle(self.api(kind), kind), name


OURS = Door(ELSEWHERE)


def plan(ctx: Context[ControlPlaneSpec], door: Door = OURS) -> Plan:
    """One resource a service that is enabled. Raises NotBuilt naming everything asked for that is not there yet."""
    if found := [(door.path(path), message) for path, message in gaps(ctx.spec)]:
        raise NotBuilt(*found[0], *found[1:])
    enabled = [member for member in MEMBERS if _runs(ctx, member)]
    keystone = ctx.children.get(door.key("Keystone", "keystone"), {})
    names = {member: _brokers(ctx.spec, enabled) if _apart(ctx.spec, member) else [member.field] for member in enabled}
    templates = {door.key(member.kind, name): _template(ctx, member) for member in enabled for name in names[member]}
    showing = {k: found for k, found in templates.items() if isinstance(found, UsesTLS) and not _elsewhere(found)}
    told = encryption(ctx, showing)
    return Plan(
        *([authorities(ctx, door.path("spec.tls"))] if told.on else []),
        *(Group(each.condition, [_child(ctx, each, name, told, door) for name in names[each]]) for each in enabled),
        *_korc(ctx, keystone),
        *monitoring(ctx, encrypted=told.on),
        endpoint=(keystone.get("status") or {}).get("endpoint"),
        wake=told.wake,
    )


def phase(verdicts: Mapping[str, Verdict], phases: Mapping[str, str] | None = None) -> str:
    """The first part of the cloud that is still missing something; Ready without one. `phases` are those of members, by
    field, that are called otherwise than here.
    """
    named = [(member.condition, (phases or {}).get(member.field, member.phase)) for member in MEMBERS]
    known = [(CONDITION, MEMBERS[0].phase), *named]
    for condition, found in known:
        verdict = verdicts.get(condition_type(condition))
        if verdict is not None and not verdict.ready:
            return found
    return "Ready"


def _template(ctx: Context[ControlPlaneSpec], member: Member) -> Template | None:
    return getattr(ctx.spec, member.field, None)


def _runs(ctx: Context[ControlPlaneSpec], member: Member) -> bool:
    """Whether a service is enabled; a Ceph also where everything is to be kept in one."""
    template = _template(ctx, member)
    if member.field == "ceph" and "enabled" not in ctx.spec.ceph.model_fields_set:
        return ctx.spec.storage_backend == "ceph"
    return template is not None and template.enabled


def _child(ctx: Context[ControlPlaneSpec], member: Member, name: str, told: Encryption, door: Door) -> Step:
    """The resource of a service: what the cloud says of all, and over it what the template says of this one."""
    template = _template(ctx, member)
    assert template is not None
    decided = _shared(ctx.spec, member) | _storage(ctx.spec, member) | _tested(ctx, member)
    passed = {name: value for name, value in decided.items() if name in _fields(template)}
    written = template.model_fields_set
    own = template.model_dump(by_alias=True, exclude_unset=True, exclude={"enabled", "per_service"})
    if member.kind in door.groups:
        own = as_c5c3(template, own)
    if messaging := _messaging(ctx.spec, member, template):
        own["messaging"] = messaging | own.get("messaging", {})
    if member.field == "nova" and ctx.spec.storage_backend == "ceph":
        own["compute"] = {"storageType": "ceph"} | own.get("compute", {})
    if member.field == "nova" and ctx.spec.cortex.enabled:
        own["scheduler"] = _asking(own.get("scheduler", {}))
    if member.field == "keystone" and ctx.spec.korc.enabled:
        own["catalog"] = _catalog(ctx.spec, door) | own.get("catalog", {})
    if member.field == "ceph" and told.on and ctx.spec.ceph.mode != "external":
        own = {"encrypted": True, **own}
    if isinstance(template, UsesTLS) and not _elsewhere(template):
        own |= {"tls": tls} if (tls := told.of(door.key(member.kind, name), template)) else {}
    wanted = kube.obj(ctx, member.kind, name, door.api(member.kind), spec=passed | own)
    shared = {
        field: door.path(f"spec.{_SHARED_FROM.get(field, field)}")
        for field in (*passed, "tls")
        if field in wanted["spec"] and to_snake(field) not in written
    }
    made = kube.recreated(kube.from_field(wanted, door.path(f"spec.{member.field}"), shared))
    return Step(name=name, objects=(made,))


_SHARED_FROM = {
    "mechanism": "networkBackend",
    "storageType": "storageBackend",
    "backends": "storageBackend",
    "coordination": "etcd",
    "cinderRef": "cinder",
    "dependsOn": "tempest",
}
"""Fields of the cloud's spec that decide about fields of its resources with other names, by the latter."""


def _catalog(spec: ControlPlaneSpec, door: Door) -> dict[str, Any]:
    """`catalog` of a Keystone whose users and services K-ORC is to keep."""
    own = spec.korc.model_dump(by_alias=True, exclude_unset=True, exclude_none=True, exclude={"enabled"})
    return {"provider": door.korc, **own}


def _korc(ctx: Context[ControlPlaneSpec], keystone: Mapping[str, Any]) -> list[Step]:
    """What became of K-ORC where it is asked for, as Keystone says it."""
    if not ctx.spec.korc.enabled or not ctx.spec.keystone.enabled:
        return []
    known = kube.conditions(keystone)
    if found := known.get("KORCReady"):
        text = found.get("message", "")
        verdict = Verdict(State.READY if found["status"] == "True" else State.WAITING, text)
    elif "ConfigReady" not in known or parts.KORC in (keystone.get("status") or {}).get("published", {}):
        verdict = waiting("waiting for Keystone/keystone")
    else:
        absent = ", ".join(
            sorted(f"{kind.partition('.')[0].lower()}s" for kind in ctx.installed_kinds.missing(*parts.KEPT))
        )
        why = f"this cluster serves no {absent} of openstack.k-orc.cloud/v1alpha1" if absent else "it did so before"
        verdict = Verdict(State.READY, f"K-ORC is not used: this operator keeps users and services itself, since {why}")
    return [Step(name="KORC", verdict=verdict)]


def _elsewhere(template: Template) -> bool:
    """Whether it is a server of somebody else's, who shows a certificate or not."""
    return getattr(template, "provider", "") == "external"


def _asking(scheduler: Mapping[str, Any]) -> dict[str, Any]:
    """`scheduler` of Nova in a cloud with a Cortex, which it asks, unless its template says otherwise."""
    own = scheduler.get("externalScheduler") or {}
    whom = {} if "endpoint" in own else {"cortexRef": {"name": "cortex"}}
    return {**scheduler, "externalScheduler": {"enabled": True, **whom, **own}}


_NOTIFICATIONS = "rabbitmq-notifications"


def _apart(spec: ControlPlaneSpec, member: Member) -> bool:
    return member.field == "rabbitmq" and spec.rabbitmq.per_service


def _brokers(spec: ControlPlaneSpec, enabled: Sequence[Member]) -> list[str]:
    """A RabbitMQ for each service that uses one and names no other, and one for notifications."""
    wired = [_messaging(spec, member, found) for member in enabled if (found := getattr(spec, member.field, None))]
    return list(dict.fromkeys(ref["name"] for found in wired for ref in found.values()))


def _messaging(spec: ControlPlaneSpec, member: Member, template: Template) -> dict[str, dict[str, str]]:
    """The references to brokers of its own a service is given; none for what its template says itself."""
    if not (spec.rabbitmq.enabled and spec.rabbitmq.per_service and isinstance(template, UsesMessaging)):
        return {}
    given: ServiceMessaging = template.messaging
    brokers = {"rabbitmq_ref": f"rabbitmq-{member.field}", "notifications_ref": _NOTIFICATIONS}
    said = given.model_fields_set | ({"rabbitmq_ref"} if given.secret_ref else set())
    return {to_camel(field): {"name": name} for field, name in brokers.items() if field not in said}


def _storage(spec: ControlPlaneSpec, member: Member) -> dict[str, Any]:
    """What the cloud decides for those that keep something, and for those that use volumes."""
    if member.field == "glance":
        return {"storageType": "ceph"} if spec.storage_backend == "ceph" else {}
    if not spec.cinder.enabled:
        return {}
    if member.field == "nova":
        return {"cinderRef": {"name": "cinder"}}
    if member.field != "cinder":
        return {}
    kind = spec.storage_backend
    return {
        **({"backends": [{"name": kind, "type": kind}]} if kind else {}),
        **({"coordination": {"etcdRef": {"name": "etcd"}}} if spec.etcd.enabled else {}),
    }


def _tested(ctx: Context[ControlPlaneSpec], member: Member) -> dict[str, Any]:
    """What tests wait for: every API of the cloud."""
    if member.field != "tempest":
        return {}
    apis = [each for each in MEMBERS if isinstance(_template(ctx, each), ServiceSpec) and _runs(ctx, each)]
    return {"dependsOn": [{"kind": api.kind, "name": api.field} for api in apis if api.kind != "OVNNetwork"]}


def _fields(template: Template) -> set[str]:
    """Names of a template's fields as users write them."""
    return {info.alias or name for name, info in type(template).model_fields.items()}


def _expose(spec: ControlPlaneSpec, member: Member) -> dict[str, Any]:
    """How clients outside reach the API of a member: by a name of its own in the domain, if there is one."""
    found = spec.expose.model_dump(by_alias=True, exclude_none=True, exclude={"domain"})
    return found | ({"host": f"{member.field}.{spec.expose.domain}"} if spec.expose.domain else {})


def _shared(spec: ControlPlaneSpec, member: Member) -> dict[str, Any]:
    """What the cloud decides for its services."""
    policies = spec.network_policies.model_dump(by_alias=True, exclude_defaults=True)
    watched = spec.monitoring
    return {
        "region": spec.region,
        "release": spec.release,
        "imageProfile": spec.image_profile,
        "expose": _expose(spec, member),
        "mechanism": spec.network_backend,
        **({"networkPolicies": policies} if policies else {}),
        **({"monitoring": watched.model_dump(by_alias=True, exclude_defaults=True)} if watched.enabled else {}),
    }
