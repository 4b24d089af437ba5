"""OpenStackControlPlane: one resource a service, all made at once; their references put them in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from pydantic.alias_generators import to_camel, to_snake

from ... import kube
from ...api import ServiceSpec, Template, UsesMessaging, UsesNotifications, UsesTLS, as_c5c3, handle, pod_extras
from ...parts.connect.korc import KORC, MANAGED_KINDS
from ...parts.connect.korc import OPERATOR as KORC_OPERATOR
from ...parts.connect.remote import API
from ...parts.remarks import of_resources
from ...plan import (
    HIGHLY_AVAILABLE,
    CloudPhase,
    Context,
    Group,
    Key,
    Plan,
    Service,
    State,
    Step,
    UnsupportedError,
    Verdict,
    condition_type,
    failed,
    waiting,
)
from ..cloud_services import CLOUD_SERVICES, template_of
from .availability import default_counts, is_highly_available, single_copies, with_defaults
from .encryption import CONDITION, Encryption, authorities, encryption
from .images import image_cache, images_cached
from .model import OTHER_GROUPS, ControlPlaneSpec
from .monitoring import monitoring
from .storage import disk_storage, storage
from .unsupported import unsupported_fields, unsupported_services
from .upgrade import CloudReleases, releases


@dataclass(frozen=True)
class CloudService:
    """A service of the cloud."""

    field: str
    """Its template in the spec, and the name of its resource, to which references of the others point by default."""
    kind: str
    phase: CloudPhase
    """Phase of the cloud while this service is not ready."""
    condition: str
    record: Service = dataclasses.field(compare=False, repr=False)

    @classmethod
    def of(cls, record: Service) -> CloudService:
        """Return the service of a record."""
        template, kind = template_of(record), record.resource.kind
        return cls(template.field, kind, template.phase, template.label or kind, record)


_PHASES = get_args(CloudPhase)
SERVICES_BY_PHASE = tuple(
    sorted(map(CloudService.of, CLOUD_SERVICES), key=lambda service: _PHASES.index(service.phase))
)
"""In the order of phases."""


@dataclass(frozen=True)
class ApiNames:
    """Names of the resources of a cloud, and of the fields in its spec."""

    groups: Mapping[str, str] = field(default_factory=dict[str, str])
    """API group by kind; openstack.k8s.io for other kinds."""
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path of a field in that spec, by its name here; a field without an entry has the same path."""
    korc: str = KORC_OPERATOR
    """`catalog.provider` of the Keystone if korc is enabled."""

    def path(self, path: str) -> str:
        """Return the path of a field as users write it."""
        name, dot, rest = path.removeprefix("spec.").partition(".")
        return f"spec.{self.places.get(name, name)}{dot}{rest}"

    def version(self, kind: str) -> str:
        """Return the apiVersion of a kind."""
        return f"{self.groups[kind]}/v1alpha1" if kind in self.groups else API

    def key(self, kind: str, name: str) -> Key:
        """Return the key of a resource in the children."""
        return handle(self.version(kind), kind), name


OURS = ApiNames(OTHER_GROUPS)
_KORC = "KORC"
"""Name of the condition of K-ORC."""


def plan(ctx: Context[ControlPlaneSpec], api: ApiNames = OURS) -> Plan:
    """Return a resource for each enabled service, and a condition for one that is not supported. Raise UnsupportedError
    with all settings without which no cloud can be made.
    """
    if fields := [(api.path(path), message) for path, message in unsupported_fields(ctx.spec)]:
        raise UnsupportedError(*fields[0], *fields[1:])
    unsupported = unsupported_services(ctx.spec)
    if fields := [(api.path(path), text) for name, (path, text) in unsupported.items() if _exists(ctx, name, api)]:
        # A cloud can be made without that service. One that has it would lose it by the mistake.
        raise UnsupportedError(*fields[0], *fields[1:])
    templates_off = {name: getattr(ctx.spec, name).model_copy(update={"enabled": False}) for name in unsupported}
    ctx = replace(ctx, spec=ctx.spec.model_copy(update=templates_off))
    enabled = [service for service in SERVICES_BY_PHASE if _runs(ctx, service)]
    keystone = ctx.children.get(api.key("Keystone", "keystone"), {})
    names = {each: _brokers(ctx.spec, enabled) if _is_per_service(ctx.spec, each) else [each.field] for each in enabled}
    templates = {api.key(service.kind, name): _template(ctx, service) for service in enabled for name in names[service]}
    with_tls = {k: each for k, each in templates.items() if isinstance(each, UsesTLS) and not _is_external(each)}
    tls = encryption(ctx, with_tls)
    of_services = [(each.record, template) for each in enabled if (template := _template(ctx, each))]
    cache = image_cache(ctx, of_services, encrypted=tls.enabled)
    cloud_releases = releases(ctx, templates, api.path("spec.release"))
    ctx = replace(ctx, spec=cloud_releases.spec)
    return Plan(
        # Before the services, whose pods it shall not delay.
        *cache,
        *([authorities(ctx, api.path("spec.tls"))] if tls.enabled else []),
        *(
            Group(each.condition, [_child(ctx, each, name, tls, api, cloud_releases) for name in names[each]])
            for each in enabled
        ),
        *(_unsupported(each, *unsupported[each.field], api) for each in SERVICES_BY_PHASE if each.field in unsupported),
        *cloud_releases.steps,
        *_korc(ctx, keystone),
        *monitoring(ctx, encrypted=tls.enabled),
        extra_conditions={**of_resources(ctx), **single_copies(ctx, api.path), **images_cached(ctx, cache)},
        endpoint=(keystone.get("status") or {}).get("endpoint"),
        wake=tls.wake,
    )


def _exists(ctx: Context[ControlPlaneSpec], field: str, api: ApiNames) -> bool:
    """Return True if a cloud has the service of a field."""
    return any(api.key(each.kind, field) in ctx.children for each in SERVICES_BY_PHASE if each.field == field)


def _unsupported(service: CloudService, path: str, message: str, api: ApiNames) -> Group:
    """Return the condition of a service that a cloud does without."""
    return Group(
        service.condition, [Step(name=service.field, verdict=failed(f"{api.path(path)}: {message}", "Unsupported"))]
    )


def phase(verdicts: Mapping[str, Verdict], phases: Mapping[str, str] | None = None, korc: str = "") -> str:
    """Return the first phase with a service that is not ready; Ready without one. `phases` are other names of services'
    phases, by field; `korc` is the phase of K-ORC, after that of Keystone, if it has one of its own.
    """
    of_services = [
        (service.condition, (phases or {}).get(service.field, service.phase)) for service in SERVICES_BY_PHASE
    ]
    by_condition = [(CONDITION, SERVICES_BY_PHASE[0].phase), *of_services]
    if korc:
        after_identity = 1 + max(index for index, (_, name) in enumerate(by_condition) if name == "Identity")
        by_condition.insert(after_identity, (_KORC, korc))
    if (ready := verdicts.get("Ready")) and ready.serves:
        # A change of a cloud that serves takes nobody back to its installation.
        return "Ready"
    for condition, name in by_condition:
        verdict = verdicts.get(condition_type(condition))
        if verdict is not None and not verdict.ready:
            return name
    return "Ready"


def _template(ctx: Context[ControlPlaneSpec], service: CloudService) -> Template | None:
    return getattr(ctx.spec, service.field, None)


def _runs(ctx: Context[ControlPlaneSpec], service: CloudService) -> bool:
    """Return True if a service is enabled; a Ceph also if it is the storage of the cloud."""
    template = _template(ctx, service)
    if service.field == "ceph" and "enabled" not in ctx.spec.ceph.model_fields_set:
        return ctx.spec.storage_backend == "ceph"
    return template is not None and template.enabled


def _child(
    ctx: Context[ControlPlaneSpec],
    service: CloudService,
    name: str,
    tls: Encryption,
    api: ApiNames,
    cloud_releases: CloudReleases,
) -> Step:
    """Return the resource of a service: settings of the cloud for all, and over them those of its template."""
    template = _template(ctx, service)
    assert template is not None
    key = api.key(service.kind, name)
    ctx, live = cloud_releases.of(ctx, key), ctx.children.get(key)
    common = _common_fields(ctx.spec, service) | storage(ctx, service.field, live) | _tested_apis(ctx, service)
    common |= _key_manager(ctx)
    common = {name: value for name, value in common.items() if name in _fields(template)}
    written = template.model_fields_set | ({"release"} if key in cloud_releases.ahead else set())
    spec = template.model_dump(by_alias=True, exclude_unset=True, exclude={"enabled", "per_service"})
    if service.kind in api.groups:
        spec = as_c5c3(template, spec)
    spec |= {field: common[field] | spec[field] for field in _MERGED if field in common and field in spec}
    if messaging := _messaging(ctx.spec, service, template):
        spec["messaging"] = messaging | spec.get("messaging", {})
    if service.field == "nova" and (disks := disk_storage(ctx, live)):
        spec["compute"] = disks | spec.get("compute", {})
    if service.field == "nova" and ctx.spec.cortex.enabled:
        spec["scheduler"] = _scheduler(spec.get("scheduler", {}))
    designate = getattr(ctx.spec, "designate", None)
    if service.field == "neutron" and designate and designate.enabled:
        spec["externalDns"] = {"designateRef": {"name": "designate"}, **spec.get("externalDns", {})}
    if service.field == "keystone" and ctx.spec.korc.enabled:
        spec["catalog"] = _catalog(ctx.spec, api) | spec.get("catalog", {})
    if service.field == "ceph" and tls.enabled and ctx.spec.ceph.mode != "external":
        spec = {"encrypted": True, **spec}
    if isinstance(template, UsesTLS) and not _is_external(template):
        entry = tls.tls_spec(key, template)
        # Unset, those kinds would take a certificate by themselves.
        spec |= {"tls": entry} if entry or api.groups.get(service.kind) else {}
    spec = with_defaults(spec, default_counts(ctx.spec, service.field, template, common, live))
    manifest = kube.obj(ctx, service.kind, name, api.version(service.kind), spec=common | spec)
    if is_highly_available(ctx.spec):
        manifest = kube.annotated(manifest, {HIGHLY_AVAILABLE: "true"})
    shared = {
        field: api.path(f"spec.{_SHARED_FROM.get(field, field)}")
        for field in (*common, "tls")
        if field in manifest["spec"] and to_snake(field) not in written
    }
    manifest = kube.recreated(kube.from_field(manifest, api.path(f"spec.{service.field}"), shared))
    return Step(name=name, objects=(manifest,))


_SHARED_FROM = {
    "mechanism": "networkBackend",
    "storageType": "storageBackend",
    "backends": "storageBackend",
    "coordination": "etcd",
    "cinderRef": "cinder",
    "barbicanRef": "barbican",
    "dependsOn": "tempest",
}
"""Fields of the cloud's spec that set fields of its resources with other names, by the latter."""


def _catalog(spec: ControlPlaneSpec, api: ApiNames) -> dict[str, Any]:
    """Return `catalog` of a Keystone whose users and services K-ORC is to manage."""
    settings = spec.korc.model_dump(by_alias=True, exclude_unset=True, exclude_none=True, exclude={"enabled"})
    return {"provider": api.korc, **settings}


def _korc(ctx: Context[ControlPlaneSpec], keystone: Mapping[str, Any]) -> list[Step]:
    """Return the step with the state of K-ORC that Keystone reports, if the cloud is to use K-ORC."""
    if not ctx.spec.korc.enabled or not ctx.spec.keystone.enabled:
        return []
    conditions = kube.conditions(keystone)
    if ready := conditions.get("KORCReady"):
        text = ready.get("message", "")
        verdict = Verdict(State.READY if ready["status"] == "True" else State.WAITING, text)
    elif "ConfigReady" not in conditions or KORC in (keystone.get("status") or {}).get("published", {}):
        verdict = waiting("waiting for Keystone/keystone")
    else:
        absent = ", ".join(
            sorted(f"{kind.partition('.')[0].lower()}s" for kind in ctx.installed_kinds.missing(*MANAGED_KINDS))
        )
        why = f"this cluster serves no {absent} of openstack.k-orc.cloud/v1alpha1" if absent else "it did so before"
        verdict = Verdict(
            State.READY, f"K-ORC is not used: this operator manages users and services itself, since {why}"
        )
    return [Step(name=_KORC, verdict=verdict)]


def _is_external(template: Template) -> bool:
    """Return True for an external server, which shows a certificate or not."""
    return getattr(template, "provider", "") == "external"


def _scheduler(scheduler: Mapping[str, Any]) -> dict[str, Any]:
    """Return `scheduler` of Nova in a cloud with a Cortex, which it calls unless its template sets another one."""
    external = scheduler.get("externalScheduler") or {}
    ref = {} if "endpoint" in external else {"cortexRef": {"name": "cortex"}}
    return {**scheduler, "externalScheduler": {"enabled": True, **ref, **external}}


_NOTIFICATIONS = "rabbitmq-notifications"


def _is_per_service(spec: ControlPlaneSpec, service: CloudService) -> bool:
    return service.field == "rabbitmq" and spec.rabbitmq.per_service


def _brokers(spec: ControlPlaneSpec, enabled: Sequence[CloudService]) -> list[str]:
    """Return names: a RabbitMQ for each service that uses one and names no other, and one for notifications."""
    refs = [_messaging(spec, each, template) for each in enabled if (template := getattr(spec, each.field, None))]
    return list(dict.fromkeys(ref["name"] for by_field in refs for ref in by_field.values()))


def _messaging(spec: ControlPlaneSpec, service: CloudService, template: Template) -> dict[str, dict[str, str]]:
    """Return the references of a service to its own brokers; none for fields that its template sets."""
    if not (spec.rabbitmq.enabled and spec.rabbitmq.per_service):
        return {}
    if isinstance(template, UsesNotifications):
        brokers = {"notifications_ref": _NOTIFICATIONS}
    elif isinstance(template, UsesMessaging):
        brokers = {"rabbitmq_ref": f"rabbitmq-{service.field}", "notifications_ref": _NOTIFICATIONS}
    else:
        return {}
    messaging = template.messaging
    set_fields = messaging.model_fields_set | ({"rabbitmq_ref"} if getattr(messaging, "secret_ref", None) else set())
    return {to_camel(field): {"name": name} for field, name in brokers.items() if field not in set_fields}


def _key_manager(ctx: Context[ControlPlaneSpec]) -> dict[str, Any]:
    """Return the field of each service that uses keys of users' data."""
    runs = any(each.field == "barbican" and _runs(ctx, each) for each in SERVICES_BY_PHASE)
    return {"barbicanRef": {"name": "barbican"}} if runs else {}


def _tested_apis(ctx: Context[ControlPlaneSpec], service: CloudService) -> dict[str, Any]:
    """Return the field of a Tempest with the services that it waits for: every API of the cloud."""
    if service.field != "tempest":
        return {}
    apis = [each for each in SERVICES_BY_PHASE if isinstance(_template(ctx, each), ServiceSpec) and _runs(ctx, each)]
    return {"dependsOn": [{"kind": api.kind, "name": api.field} for api in apis if api.kind != "OVNNetwork"]}


def _fields(template: Template) -> set[str]:
    """Return the names of a template's fields as users write them."""
    return {info.alias or name for name, info in type(template).model_fields.items()}


def _expose(spec: ControlPlaneSpec, service: CloudService) -> dict[str, Any]:
    """Return `expose` of a service: the cloud's, with a name of its own in the domain, if the cloud has one."""
    fields = spec.expose.model_dump(by_alias=True, exclude_none=True, exclude={"domain"})
    expose = {name: value for name, value in fields.items() if value not in ({}, [])}
    return expose | ({"host": f"{service.field}.{spec.expose.domain}"} if spec.expose.domain else {})


_MERGED = ("podAnnotations", "podLabels")
"""Fields that a template adds to the cloud's, in place of replacing them."""


def _common_fields(spec: ControlPlaneSpec, service: CloudService) -> dict[str, Any]:
    """Return the settings of the cloud for its services."""
    policies = spec.network_policies.model_dump(by_alias=True, exclude_defaults=True)
    upgrade = spec.upgrade.model_dump(by_alias=True, exclude_defaults=True, exclude={"backup"})
    metrics = spec.monitoring.model_dump(by_alias=True, exclude_defaults=True, exclude={"runbook_url"})
    return {
        "region": spec.region,
        "release": spec.release,
        **({"upgrade": upgrade} if upgrade else {}),
        "imageProfile": spec.image_profile,
        "expose": _expose(spec, service),
        "mechanism": spec.network_backend,
        **({"networkPolicies": policies} if policies else {}),
        **pod_extras(spec, spec.proxy),
        **({"monitoring": metrics} if spec.monitoring.enabled else {}),
        **({"logging": {"format": spec.logging.format}} if spec.logging.format != "text" else {}),
    }
