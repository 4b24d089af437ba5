"""OpenStackControlPlane: one resource a service, all made at once; their references put them in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_camel

from ... import kube, parts
from ...api import ServiceMessaging, ServiceSpec, Template, UsesMessaging
from ...plan import Context, Group, NotBuilt, Plan, Step, Verdict, condition_type
from .gaps import gaps
from .model import ControlPlaneSpec


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
    Member("heat", "Heat", "OptionalServices"),
    Member("horizon", "Horizon", "OptionalServices"),
)


def plan(ctx: Context[ControlPlaneSpec]) -> Plan:
    """One resource a service that is enabled. Raises NotBuilt naming everything asked for that is not there yet."""
    if found := gaps(ctx.spec):
        first, *more = [str(NotBuilt(path, message)) for path, message in found]
        raise NotBuilt(found[0][0], "; ".join((first.partition(": ")[2], *more)))
    enabled = [member for member in MEMBERS if _runs(ctx, member)]
    keystone = ctx.children.get(("Keystone", "keystone"), {})
    return Plan(
        *(_brokers(ctx, enabled) if _apart(ctx.spec, member) else _child(ctx, member) for member in enabled),
        endpoint=(keystone.get("status") or {}).get("endpoint"),
    )


def phase(verdicts: Mapping[str, Verdict]) -> str:
    """The first part of the cloud that is still missing something; Ready without one."""
    for member in MEMBERS:
        verdict = verdicts.get(condition_type(member.condition))
        if verdict is not None and not verdict.ready:
            return member.phase
    return "Ready"


def _template(ctx: Context[ControlPlaneSpec], member: Member) -> Template | None:
    return getattr(ctx.spec, member.field, None)


def _runs(ctx: Context[ControlPlaneSpec], member: Member) -> bool:
    """Whether a service is enabled; a Ceph also where everything is to be kept in one."""
    template = _template(ctx, member)
    if member.field == "ceph" and "enabled" not in ctx.spec.ceph.model_fields_set:
        return ctx.spec.storage_backend == "ceph"
    return template is not None and template.enabled


def _child(ctx: Context[ControlPlaneSpec], member: Member, name: str = "") -> Step:
    """The resource of a service: what the cloud says of all, and over it what the template says of this one. `name`
    where it is not the field's.
    """
    template = _template(ctx, member)
    assert template is not None
    decided = _shared(ctx.spec, member) | _storage(ctx.spec, member)
    passed = {name: value for name, value in decided.items() if name in _fields(template)}
    own = template.model_dump(by_alias=True, exclude_unset=True, exclude={"enabled", "per_service"})
    if messaging := _messaging(ctx.spec, member, template):
        own["messaging"] = messaging | own.get("messaging", {})
    if member.field == "nova" and ctx.spec.storage_backend == "ceph":
        own["compute"] = {"storageType": "ceph"} | own.get("compute", {})
    if own.get("tls") and isinstance(template, ServiceSpec):
        own["tls"] = {"announced": _trusted(ctx), **own["tls"]}
    wanted = kube.obj(ctx, member.kind, name or member.field, parts.API, spec=passed | own)
    return Step(name=name or member.condition, objects=(wanted,))


def _trusted(ctx: Context[ControlPlaneSpec]) -> bool:
    """Whether APIs may be announced as encrypted: nobody would find one in the catalog and not know how to check it.
    In a cloud that runs, that is when all services have been rolled out with what they check each other by; it stays
    so, whatever becomes of them later.
    """
    apis = [
        (template.tls is not None, ctx.children.get((member.kind, member.field)))
        for member in MEMBERS
        if _runs(ctx, member) and isinstance(template := _template(ctx, member), ServiceSpec)
    ]
    live = [(asked, child, child["spec"].get("tls") or {}) for asked, child in apis if child is not None]
    if not live or any(told.get("announced", bool(told)) for _, _, told in live):
        return True
    return len(live) == len(apis) and all(_is_ready(child) and (told or not asked) for asked, child, told in live)


def _is_ready(child: kube.Object) -> bool:
    """Whether a resource is Ready as it was written last."""
    found = (child.get("status") or {}).get("conditions") or []
    return any(
        each["type"] == "Ready"
        and each["status"] == "True"
        and each.get("observedGeneration") == child["metadata"].get("generation")
        for each in found
    )


_NOTIFICATIONS = "rabbitmq-notifications"


def _apart(spec: ControlPlaneSpec, member: Member) -> bool:
    return member.field == "rabbitmq" and spec.rabbitmq.per_service


def _brokers(ctx: Context[ControlPlaneSpec], enabled: Sequence[Member]) -> Group:
    """A RabbitMQ for each service that uses one and names no other, and one for notifications."""
    broker = next(member for member in enabled if _apart(ctx.spec, member))
    wired = [_messaging(ctx.spec, member, template) for member in enabled if (template := _template(ctx, member))]
    names = dict.fromkeys(ref["name"] for found in wired for ref in found.values())
    return Group(broker.condition, [_child(ctx, broker, name) for name in names])


def _messaging(spec: ControlPlaneSpec, member: Member, template: Template) -> dict[str, dict[str, str]]:
    """The references to brokers of its own a service is given; none for what its template says itself."""
    if not (spec.rabbitmq.enabled and spec.rabbitmq.per_service and isinstance(template, UsesMessaging)):
        return {}
    given: ServiceMessaging = template.messaging
    brokers = {"rabbitmq_ref": f"rabbitmq-{member.field}", "notifications_ref": _NOTIFICATIONS}
    return {to_camel(field): {"name": name} for field, name in brokers.items() if field not in given.model_fields_set}


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


def _fields(template: Template) -> set[str]:
    """Names of a template's fields as users write them."""
    return {info.alias or name for name, info in type(template).model_fields.items()}


def _shared(spec: ControlPlaneSpec, member: Member) -> dict[str, Any]:
    """What the cloud decides for its services."""
    return {
        "region": spec.region,
        "release": spec.release,
        "imageProfile": spec.image_profile,
        "expose": spec.expose.model_dump(by_alias=True, exclude_none=True),
        "mechanism": spec.network_backend,
    }
