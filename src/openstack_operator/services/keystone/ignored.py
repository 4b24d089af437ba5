"""Fields of a Keystone that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan
from .model import KeystoneSpec


def ignored(ctx: Context[KeystoneSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    if ctx.spec.catalog.provider != "builtin":
        return {}
    text = "only K-ORC uses it; remove it, or set catalog.provider"
    fields = {"catalog.bootstrapResources": text, "catalog.secretStoreRef": text}
    if not ctx.spec.bootstrap.application_credential:
        fields["bootstrap.accessRules"] = "it needs a credential; set bootstrap.applicationCredential, or remove it"
    return fields
