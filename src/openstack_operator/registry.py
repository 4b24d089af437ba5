"""Registry of every kind the operator serves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from .actuators import ACTUATORS
from .api import UsesCloudPKI
from .parts.connect.ceph import ignored_clients
from .parts.connect.external import external_kinds
from .parts.expose.ignored import ignored_exposure, ignored_monitoring, ignored_proxy
from .parts.expose.short_name import with_short_name
from .parts.run.config_check import check_options
from .parts.run.consistency import REVIEWS
from .parts.run.environment import check_environment
from .parts.run.new_images import with_image_trials
from .parts.secrets.credentials import with_urgent_logins
from .plan import C5C3, Listens, Planner, Service
from .services import backup, controlplane, credentialrotation, hypervisorcluster, ovnnetwork, pki, secretaggregate
from .services.cloud_services import CLOUD_SERVICES
from .services.controlplane.c5c3 import API_NAMES

IGNORED_IN_ALL = (ignored_exposure, ignored_proxy, ignored_monitoring, ignored_clients)
"""Functions that name fields without effect in the specs of all kinds."""

_SERVICES = (
    controlplane.SERVICE,
    pki.SERVICE,
    *CLOUD_SERVICES,
    hypervisorcluster.SERVICE,
    credentialrotation.SERVICE,
    secretaggregate.SERVICE,
    backup.SERVICE,
    backup.SCHEDULE_SERVICE,
    backup.RESTORE_SERVICE,
)


def _as_c5c3(service: Service, variant: C5C3) -> Service:
    """Return a service under the names of c5c3."""
    spec = service.resource.spec
    members = {"__module__": spec.__module__, "__qualname__": spec.__qualname__, "__doc__": spec.__doc__}
    resource = replace(
        service.resource,
        spec=type(spec.__name__, (UsesCloudPKI, spec), members),
        group=API_NAMES.groups[service.resource.kind],
        short_names=(),
        as_c5c3=True,
        status=variant.status or service.resource.status,
    )
    return replace(service, resource=resource, plan=with_short_name(variant.plan or service.plan))


def _completed(service: Service) -> Service:
    """Return a service with what all of them have: checks, and a plan that follows new images and removed passwords."""
    plan: Planner = with_urgent_logins(service.plan)
    environment = partial(check_environment, internal_overrides=service.internal_overrides)
    return replace(
        service,
        # Of an image that a user chooses for a kind without images of the release, nobody knows a command.
        plan=with_image_trials(plan) if service.has_release_images else plan,
        ignores=(*service.ignores, *IGNORED_IN_ALL),
        checks=(*service.checks, check_options),
        reviews=(*service.reviews, environment, *REVIEWS),
    )


SERVICES = tuple(
    _completed(service)
    for service in (
        *_SERVICES,
        controlplane.C5C3_SERVICE,
        credentialrotation.C5C3_SERVICE,
        *(_as_c5c3(service, service.c5c3) for service in CLOUD_SERVICES if service.c5c3),
        ovnnetwork.CLUSTER_SERVICE,
    )
)

SERVERS: dict[str, Listens] = {each.resource.role: each.listens for each in SERVICES if each.listens}
"""Ports at which others reach pods, by kind."""

RESOURCES = tuple(entry.resource for entry in (*SERVICES, *ACTUATORS))
"""Every kind, in the order users meet them."""

EXTERNAL_KINDS = external_kinds(SERVICES)
"""Every kind of another project that a plan may have."""

__all__ = ["ACTUATORS", "EXTERNAL_KINDS", "RESOURCES", "SERVERS", "SERVICES"]
