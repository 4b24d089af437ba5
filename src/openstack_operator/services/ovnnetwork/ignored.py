"""Fields of a OVNNetwork that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan
from .model import OVNNetworkSpec


def ignored(ctx: Context[OVNNetworkSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    return {} if ctx.spec.relay.replicas else {"relay": "there is no relay; set relay.replicas"}
