"""Kinds of other projects that plans may have."""

from __future__ import annotations

from collections.abc import Iterable

from ...plan import Kind, Service
from ..expose import exposure, monitoring
from ..secrets import issued

_SHARED = (*exposure.KINDS, *issued.KINDS, *monitoring.KINDS)
"""Kinds that a part makes for each service which asks for it."""


def external_kinds(services: Iterable[Service]) -> tuple[Kind, ...]:
    """Return the kinds that parts make for any service, and those in the records of these services."""
    return tuple(dict.fromkeys((*_SHARED, *(kind for service in services for kind in service.kinds))))
