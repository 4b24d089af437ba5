"""Actuators that keep objects outside Kubernetes, from databases and users to volume types, as their resources say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

from ..api import Resource
from ..plan import Actuator, Context, Transient
from . import (
    application,
    backends,
    catalog,
    database,
    domain,
    federation,
    identity,
    messaging,
    name_claims,
    ovn,
    quotas,
    volume_types,
)
from .budget import limited
from .federation_models import IDENTITY_PROVIDER
from .loop import Refused
from .models import APPLICATION_CREDENTIAL, DATABASE, DOMAIN, SERVICE, USER, VHOST
from .network_models import CHASSIS
from .storage_models import BACKEND, QUOTA, VOLUME_TYPE

_CHEAP = timedelta(seconds=60)
_DEAR = timedelta(seconds=120)
"""A look at a user costs Keystone a bcrypt hash, a quarter of a second of CPU; and nodes there may be thousands."""
_NEAR = timedelta(seconds=10)
"""Interval for cheap looks that serve the status."""


def _by_korc(kind: str) -> Callable[[Any], str]:
    return lambda spec: f"{kind}.openstack.k-orc.cloud" if spec.provider == "k-orc" else ""


_LONGEST = 60.0
"""Seconds for all requests of one look: what a server answers decides how many follow."""
_MOST = 64 << 20
"""Bytes that servers may send for one look; the queues of a thousand nodes have two millions."""
_CPU = 10.0
"""Seconds of CPU for one look, which other resources wait for; one at a large broker takes half a second."""

WorkT = TypeVar("WorkT")


def within(seconds: float, work: Callable[[Context[Any]], WorkT]) -> Callable[[Context[Any]], WorkT]:
    """Return the same work, which raises Transient when its requests take longer than that altogether, or a server
    refuses what no field of the spec is to blame for.
    """

    def bounded(ctx: Context[Any]) -> WorkT:
        try:
            with limited(seconds=seconds, received=_MOST, cpu=_CPU):
                return work(ctx)
        except Refused as refused:
            raise Transient(str(refused)) from None

    return bounded


def _limited(actuator: Actuator) -> Actuator:
    observe = within(_LONGEST, actuator.observe) if actuator.observe else None
    ensure, remove = within(_LONGEST, actuator.ensure), within(_LONGEST, actuator.remove)
    return replace(actuator, ensure=ensure, remove=remove, observe=observe)


def _actuator(resource: Resource[Any], module: Any, interval: timedelta, **optional: Any) -> Actuator:
    """Return the record of a module that has `ensure` and `remove`."""
    return Actuator(resource=resource, ensure=module.ensure, remove=module.remove, interval=interval, **optional)


ACTUATORS: tuple[Actuator, ...] = tuple(
    map(
        _limited,
        (
            _actuator(DATABASE, database, _CHEAP, claims=name_claims.database),
            _actuator(VHOST, messaging, _CHEAP, claims=name_claims.vhost, observe=messaging.observe),
            _actuator(
                USER,
                identity,
                _DEAR,
                external_kind=_by_korc("User"),
                claims=name_claims.user,
                rivals={DOMAIN: name_claims.domain},
            ),
            _actuator(SERVICE, catalog, _DEAR, external_kind=_by_korc("Service"), claims=name_claims.service),
            _actuator(VOLUME_TYPE, volume_types, _DEAR, claims=name_claims.volume_type),
            _actuator(QUOTA, quotas, _DEAR, claims=name_claims.quota),
            # It only reads, so that two of one backend harm nobody.
            _actuator(BACKEND, backends, _NEAR, observe=backends.observe),
            _actuator(IDENTITY_PROVIDER, federation, _DEAR, claims=name_claims.identity_provider),
            _actuator(DOMAIN, domain, _DEAR, claims=name_claims.domain, rivals={USER: name_claims.user}),
            # The name of the resource is that of the node in OVN, so that no two of a namespace have the same.
            _actuator(CHASSIS, ovn, _DEAR, observe=ovn.observe),
            _actuator(APPLICATION_CREDENTIAL, application, _DEAR, claims=name_claims.application_credential),
        ),
    )
)

__all__ = [
    "ACTUATORS",
    "APPLICATION_CREDENTIAL",
    "BACKEND",
    "CHASSIS",
    "DATABASE",
    "DOMAIN",
    "IDENTITY_PROVIDER",
    "QUOTA",
    "SERVICE",
    "USER",
    "VHOST",
    "VOLUME_TYPE",
]
