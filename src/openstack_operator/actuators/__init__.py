"""Actuators that keep objects outside Kubernetes, from databases and users to volume types, as their resources say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from ..api import Resource
from ..plan import Claims, Context, Outcome, Transient
from . import (
    application,
    backends,
    catalog,
    claims,
    database,
    federation,
    identity,
    messaging,
    ovn,
    quotas,
    volume_types,
)
from .deadline import deadline
from .federation_models import IDENTITY_PROVIDER
from .loop import Refused
from .models import APPLICATION_CREDENTIAL, DATABASE, SERVICE, USER, VHOST
from .network_models import CHASSIS
from .storage_models import BACKEND, QUOTA, VOLUME_TYPE


class Entry(NamedTuple):
    """A kind with what keeps it true; both functions block, and threads may run them side by side."""

    resource: Resource[Any]
    ensure: Callable[[Context[Any]], Sequence[str]]
    """Makes the remote side as the spec says and tells what it changed."""
    remove: Callable[[Context[Any]], None]
    """Removes what `ensure` made; no error where it is gone already."""
    interval: timedelta
    """Time between two looks."""
    observe: Callable[[Context[Any]], Outcome] | None = None
    """Further observations of the remote side, for the status."""
    beside: Callable[[Any], str] | None = None
    """For a spec, handle of the kind of another operator that has an object of the same name for the same thing; empty
    where this one is alone."""
    claims: Claims | None = None
    """Names that a resource has for itself alone; others that claim the same leave them alone (`ctx.taken`)."""


_CHEAP = timedelta(seconds=60)
_DEAR = timedelta(seconds=120)
"""A look at a user costs Keystone a bcrypt hash, a quarter of a second of CPU; and nodes there may be thousands."""
_NEAR = timedelta(seconds=10)
"""Interval for cheap looks that serve the status."""


def _by_korc(kind: str) -> Callable[[Any], str]:
    return lambda spec: f"{kind}.openstack.k-orc.cloud" if spec.provider == "k-orc" else ""


_LONGEST = 60.0
"""Seconds for all requests of one look: what a server answers decides how many follow."""

WorkT = TypeVar("WorkT")


def within(seconds: float, work: Callable[[Context[Any]], WorkT]) -> Callable[[Context[Any]], WorkT]:
    """The same work, which raises Transient when its requests take longer than that altogether, or a server refuses
    what no field of the spec is to blame for.
    """

    def limited(ctx: Context[Any]) -> WorkT:
        try:
            with deadline(seconds):
                return work(ctx)
        except Refused as refused:
            raise Transient(str(refused)) from None

    return limited


def _limited(entry: Entry) -> Entry:
    observe = within(_LONGEST, entry.observe) if entry.observe else None
    return entry._replace(ensure=within(_LONGEST, entry.ensure), remove=within(_LONGEST, entry.remove), observe=observe)


_ENTRIES = (
    Entry(DATABASE, database.ensure, database.remove, _CHEAP, claims=claims.database),
    Entry(VHOST, messaging.ensure, messaging.remove, _CHEAP, claims=claims.vhost),
    Entry(USER, identity.ensure, identity.remove, _DEAR, beside=_by_korc("User"), claims=claims.user),
    Entry(SERVICE, catalog.ensure, catalog.remove, _DEAR, beside=_by_korc("Service")),
    Entry(VOLUME_TYPE, volume_types.ensure, volume_types.remove, _DEAR),
    Entry(QUOTA, quotas.ensure, quotas.remove, _DEAR),
    Entry(BACKEND, backends.ensure, backends.remove, _NEAR, backends.observe),
    Entry(IDENTITY_PROVIDER, federation.ensure, federation.remove, _DEAR),
    Entry(CHASSIS, ovn.ensure, ovn.remove, _DEAR, ovn.observe),
    Entry(APPLICATION_CREDENTIAL, application.ensure, application.remove, _DEAR),
)
ACTUATORS: tuple[Entry, ...] = tuple(map(_limited, _ENTRIES))

__all__ = [
    "ACTUATORS",
    "APPLICATION_CREDENTIAL",
    "BACKEND",
    "CHASSIS",
    "DATABASE",
    "IDENTITY_PROVIDER",
    "QUOTA",
    "SERVICE",
    "USER",
    "VHOST",
    "VOLUME_TYPE",
    "Entry",
]
