"""Fields of a Cortex that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan
from .model import CortexSpec


def ignored(ctx: Context[CortexSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    profile = {"imageProfile": "Cortex has the same image in all profiles; remove it"}
    if ctx.spec.image:
        return profile
    fields = ("database", "keystone", "datasources")
    return profile | dict.fromkeys(fields, "the reference scheduler does not use it; set image, or remove it")
