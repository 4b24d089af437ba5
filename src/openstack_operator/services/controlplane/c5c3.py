"""ControlPlane of c5c3.io: the cloud an OpenStackControlPlane makes, of resources with other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...api import Model, Template
from ...plan import Context, Plan, SpecError, Verdict
from . import service
from .c5c3_model import C5C3ControlPlaneSpec, CacheTemplate
from .model import ELSEWHERE, ControlPlaneSpec, MemcachedTemplate

SERVICES = ("Keystone", "Glance", "Placement", "Neutron", "Nova", "Cinder")
"""Kinds with an API group of their own there, `<kind>.openstack.c5c3.io`."""
_PLACES = {
    name: f"{part.alias or field}.{name}"
    for field, part in C5C3ControlPlaneSpec.model_fields.items()
    if field in {"infrastructure", "services", "global_"} and isinstance(part.annotation, type)
    for name in part.annotation.model_fields
}
DOOR = service.Door(
    {**ELSEWHERE, **{kind: f"{kind.lower()}.openstack.c5c3.io" for kind in SERVICES}},
    _PLACES,
    parts.AUTO,
)

_PHASES = {"neutron": "Compute", "nova": "Compute", "cinder": "Compute", "cortex": "Scheduler", "tempest": "Testing"}


def plan(ctx: Context[C5C3ControlPlaneSpec]) -> Plan:
    """As `service.plan`, by the same names of resources; those of OpenStack's services are in groups of their own."""
    same: Context[Any] = ctx
    return service.plan(replace(same, spec=translated(ctx.spec)), DOOR)


def translated(spec: C5C3ControlPlaneSpec) -> ControlPlaneSpec:
    """The same cloud as an OpenStackControlPlane says it."""
    beside: dict[str, Any] = {name: value for name, value in _fields(spec).items() if isinstance(value, Template)}
    found = {**_fields(spec.infrastructure), **_fields(spec.services), **_fields(spec.global_), **beside}
    if "korc" in spec.model_fields_set:
        found["korc"] = spec.korc
    if isinstance(cache := found.get("memcached"), CacheTemplate):
        found["memcached"] = _memcached(cache)
    for name in ("mariadb", "rabbitmq", "memcached", "valkey"):
        if template := found.get(name, getattr(spec.infrastructure, name)):
            found[name] = _open(template)
    return ControlPlaneSpec(**found)


def _fields(model: Model) -> dict[str, Any]:
    """What was written of it; what was not keeps the default it has there."""
    return {name: value for name in model.model_fields_set if (value := getattr(model, name)) is not None}


def _open(template: Template) -> Template:
    """The template, with its provider left open where it says none."""
    return template if "provider" in template.model_fields_set else template.model_copy(update={"provider": "auto"})


def _memcached(template: CacheTemplate) -> MemcachedTemplate:
    own = template.model_dump(by_alias=True, exclude_unset=True, exclude={"memory"})
    if template.memory:
        own["memoryMB"] = int(kube.amount(template.memory) / 1024**2)
    try:
        return MemcachedTemplate.model_validate(own)
    except ValueError:
        # All else in it was a template before.
        raise SpecError("spec.infrastructure.memcached.memory", "choose 16Mi to 1Ti") from None


def phase(verdicts: Mapping[str, Verdict]) -> str:
    """The first part of the cloud that is still missing something; Ready without one."""
    return service.phase(verdicts, _PHASES)
