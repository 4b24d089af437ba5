"""Fields of a Horizon that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan, unused
from .additions import unknown_keys
from .model import HorizonSpec


def ignored(ctx: Context[HorizonSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    spec = ctx.spec
    direct = unused("imageUpload", {"Direct": ("glanceRef",)}, spec.image_upload)
    region = {} if spec.other_keystones else {"region": "it has no effect with a single Keystone; remove it"}
    return direct | region | dict(unknown_keys(spec.config))
