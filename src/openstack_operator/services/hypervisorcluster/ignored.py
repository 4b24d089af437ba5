"""Fields of a HypervisorCluster that have no effect."""

from __future__ import annotations

from ...plan import Context, IgnoredFields, Plan
from ..nova.node_model import Compute
from .model import HypervisorClusterSpec

_OF_NODES = [f"compute.{info.alias}" for name, info in Compute.model_fields.items() if name not in {"enabled", "rbd"}]


def ignored(ctx: Context[HypervisorClusterSpec], plan: Plan) -> IgnoredFields:
    """Return the fields that the plan does not use."""
    without_effect = {} if ctx.spec.compute.enabled else dict.fromkeys(_OF_NODES, "compute.enabled is false; remove it")
    return {"compute.rbd": "servers' disks in Ceph are not supported here; remove it", **without_effect}
