"""Fields of a Designate that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan, unused
from .model import DesignateSpec

_USES = {"bind9": ("bind9",), "pdns4": ("pdns4",), "external": ("external",)}


def ignored(ctx: Context[DesignateSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    further = {
        f"pools.{index}.{field}": text
        for index, pool in enumerate(ctx.spec.pools)
        for field, text in unused("backend", _USES, pool.backend).items()
    }
    return unused("backend", _USES, ctx.spec.backend) | further
