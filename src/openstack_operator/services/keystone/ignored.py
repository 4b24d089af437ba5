"""Fields of a Keystone that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan
from .model import KeystoneSpec


def ignored(ctx: Context[KeystoneSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    if ctx.spec.catalog.provider == "builtin":
        text = "only K-ORC uses it; remove it, or set catalog.provider"
        return {"catalog.bootstrapResources": text, "catalog.secretStoreRef": text}
    return {}
