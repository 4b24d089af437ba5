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
        {} if compute.enabled else dict.fromkeys(_OF_NODES, "there are no compute nodes; set compute.enabled")
    )
    if external and not external.enabled:
        without_effect["scheduler.externalScheduler"] = (
            "Nova asks no other scheduler; set scheduler.externalScheduler.enabled"
        )
    moves = {} if compute.live_migration else {"compute.migrationNetwork": "no server moves; set compute.liveMigration"}
    return disks | moves | without_effect
