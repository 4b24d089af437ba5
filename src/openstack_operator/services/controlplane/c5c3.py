"""ControlPlane of c5c3.io: the cloud an OpenStackControlPlane makes, of resources with other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ... import parts
from ...api import Model, Template
from ...plan import Context, Plan, Verdict
from . import service
from .c5c3_model import C5C3ControlPlaneSpec
from .model import ELSEWHERE, ControlPlaneSpec

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


def phase(verdicts: Mapping[str, Verdict]) -> str:
    """The first part of the cloud that is still missing something; Ready without one."""
    return service.phase(verdicts, _PHASES)
