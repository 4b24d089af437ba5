"""Cinder of c5c3's group, with capacities in whole GiB."""

from __future__ import annotations

from typing import Any

from ...api import mebibytes
from ...plan import Context, Plan
from . import service
from .backend_model import Backend
from .model import CinderSpec


def plan(ctx: Context[CinderSpec]) -> Plan:
    """Return the plan of `service.plan`, with capacities in GiB."""
    return service.plan(ctx, _status)


def _status(ctx: Context[CinderSpec], backend: Backend) -> dict[str, Any]:
    """Return an entry of `status.backends`."""
    entry = service.status(ctx, backend)
    numbers = {f"{name}Gb": mebibytes(entry.pop(name)) // 1024 for name in service.CAPACITIES if name in entry}
    return {**entry, **numbers}
