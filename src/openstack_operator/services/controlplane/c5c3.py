"""ControlPlane of c5c3.io: the cloud of an OpenStackControlPlane, made of resources with other names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic.alias_generators import to_camel

from ...api import Model, Template
from ...parts import delegate
from ...plan import CloudResources, Context, Plan, Verdict
from ..cloud_services import CLOUD_SERVICES
from . import backup, service
from .c5c3_model import C5C3ControlPlaneSpec
from .model import OTHER_GROUPS, ControlPlaneSpec

_PLACES = {
    to_camel(name): f"{part.alias or field}.{to_camel(name)}"
    for field, part in C5C3ControlPlaneSpec.model_fields.items()
    if field in {"infrastructure", "services", "global_"} and isinstance(part.annotation, type)
    for name in part.annotation.model_fields
}
_KINDS = tuple(each.resource.kind for each in CLOUD_SERVICES if each.c5c3)
"""Kinds with an API group of their own."""
API_NAMES = service.ApiNames(
    {**OTHER_GROUPS, **{kind: f"{kind.lower()}.openstack.c5c3.io" for kind in _KINDS}},
    _PLACES,
    delegate.AUTO,
)

_PHASES = {"neutron": "Compute", "nova": "Compute", "cinder": "Compute", "cortex": "Scheduler", "tempest": "Testing"}
_CATALOG_PHASE = "ServiceCatalog"
"""Phase while K-ORC does not have what services register with; each service then enters itself."""


def plan(ctx: Context[C5C3ControlPlaneSpec]) -> Plan:
    """Return the plan of `service.plan`, with the same names; OpenStack's services are in API groups of their own."""
    untyped: Context[Any] = ctx
    return service.plan(replace(untyped, spec=translate(ctx.spec)), API_NAMES)


SCHEDULES = CloudResources(lambda ctx: backup.is_wanted(replace(ctx, spec=translate(ctx.spec))), backup.SCHEDULES.kinds)
"""Resources that say where backups are stored."""


def translate(spec: C5C3ControlPlaneSpec) -> ControlPlaneSpec:
    """Return the spec of the same cloud as an OpenStackControlPlane."""
    top_level: dict[str, Any] = {name: value for name, value in _fields(spec).items() if isinstance(value, Template)}
    fields = {**_fields(spec.infrastructure), **_fields(spec.services), **_fields(spec.global_), **top_level}
    if "korc" in spec.model_fields_set:
        fields["korc"] = spec.korc
    for name in ("mariadb", "rabbitmq", "memcached", "valkey"):
        if template := fields.get(name, getattr(spec.infrastructure, name)):
            fields[name] = _with_provider(template)
    return ControlPlaneSpec(**fields)


def _fields(model: Model) -> dict[str, Any]:
    """Return the fields that a user set; the others keep the defaults of the other model."""
    return {name: value for name in model.model_fields_set if (value := getattr(model, name)) is not None}


def _with_provider(template: Template) -> Template:
    """Return the template, with provider `auto` if it sets none."""
    return template if "provider" in template.model_fields_set else template.model_copy(update={"provider": "auto"})


def phase(verdicts: Mapping[str, Verdict]) -> str:
    """Return the first phase with a service that is not ready; Ready without one."""
    return service.phase(verdicts, _PHASES, korc=_CATALOG_PHASE)
