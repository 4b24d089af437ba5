"""Fields of a CephStorage that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan, unused
from .model import USERS, CephStorageSpec

_PLACEMENT_GROUPS = tuple(f"pools.{use}.placementGroups" for use in USERS)
_USES = {
    "local": ("monitors", "osds", *_PLACEMENT_GROUPS),
    "external": ("external", *_PLACEMENT_GROUPS),
    "rook": ("rook",),
}


def ignored(ctx: Context[CephStorageSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    return unused("mode", _USES, ctx.spec.mode)
