"""Fields of a Nova that have no effect in some modes."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan, unused
from .model import NovaSpec
from .node_model import Compute

_OF_NODES = [f"compute.{info.alias}" for name, info in Compute.model_fields.items() if name != "enabled"]


def ignored(ctx: Context[NovaSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    compute, external = ctx.spec.compute, ctx.spec.scheduler.external_scheduler
    disks = unused("compute.storageType", {"ceph": ("compute.rbd",)}, compute.storage_type)
    without_effect = (
        {} if compute.enabled else dict.fromkeys(_OF_NODES, "compute nodes are off; set compute.enabled, or remove it")
    )
    if external and not external.enabled:
        without_effect["scheduler.externalScheduler"] = (
            "the external scheduler is off; set scheduler.externalScheduler.enabled, or remove it"
        )
    moves = (
        {}
        if compute.live_migration
        else {"compute.migrationNetwork": "live migration is off; set compute.liveMigration, or remove it"}
    )
    return disks | moves | without_effect
