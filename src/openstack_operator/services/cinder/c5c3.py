"""Cinder of c5c3's group, which tells capacities as whole GiB."""

from __future__ import annotations

from typing import Any

from ...api import mebibytes
from ...plan import Context, Plan
from . import service
from .backend_model import Backend
from .model import CinderSpec


def plan(ctx: Context[CinderSpec]) -> Plan:
    """As `service.plan`."""
    return service.plan(ctx, _status)


def _status(ctx: Context[CinderSpec], backend: Backend) -> dict[str, Any]:
    """An entry of `status.backends`."""
    told = service.status(ctx, backend)
    numbers = {f"{name}Gb": mebibytes(told.pop(name)) // 1024 for name in service.CAPACITIES if name in told}
    return {**told, **numbers}
