"""Fields of a OVNNetwork that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan
from .model import Members, OVNNetworkSpec

_OF_DATABASES = ("replicas", "storageSize", "storageClassName", "retention", "tls", "northd", "relay")


def ignored(ctx: Context[OVNNetworkSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    if getattr(ctx.spec, "external", None):
        members = [
            f"{each}.{info.alias}" for each in ("northbound", "southbound") for info in Members.model_fields.values()
        ]
        return dict.fromkeys((*_OF_DATABASES, *members), "spec.external uses databases of another OVN; remove it")
    return {} if ctx.spec.relay.replicas else {"relay": "relays are off; set relay.replicas, or remove it"}
