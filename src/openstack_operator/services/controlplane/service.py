"""OpenStackControlPlane: one resource a service, all made at once; their references put them in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ... import kube, parts
from ...api import Template
from ...plan import Context, NotBuilt, Plan, Step, Verdict, condition_type
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
    enabled = [member for member in MEMBERS if (template := _template(ctx, member)) and template.enabled]
    keystone = ctx.children.get(("Keystone", "keystone"), {})
    return Plan(
        *(_child(ctx, member) for member in enabled),
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


def _child(ctx: Context[ControlPlaneSpec], member: Member) -> Step:
    """The resource of a service: what the cloud says of all, and over it what the template says of this one."""
    template = _template(ctx, member)
    assert template is not None
    passed = {name: value for name, value in _shared(ctx.spec, member).items() if name in _fields(template)}
    own = template.model_dump(by_alias=True, exclude_unset=True, exclude={"enabled"})
    wanted = kube.obj(ctx, member.kind, member.field, parts.API, spec=passed | own)
    return Step(name=member.condition, objects=(wanted,))


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
