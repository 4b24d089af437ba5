"""The number of pods of a resource, and the labels that find them, for its `scale` subresource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...api import Scale
from ...plan import Context


def scale_status(scale: Scale | None, ctx: Context[Any]) -> Mapping[str, Any]:
    """Return the fields `replicas` and `selector` of a resource's status, from its live workload; neither where there
    is none yet, or where another operator runs the pods.
    """
    if scale is None:
        return {}
    live = ctx.live(scale.kind, scale.component)
    if live is None:
        return {}
    # What the plan wants of it may be another number: `replicas` of the component, or an autoscaler's.
    pods = (live.get("status") or {}).get("replicas", 0)
    labels: Mapping[str, str] = live["spec"]["selector"]["matchLabels"]
    return {"replicas": pods, "selector": ",".join(f"{name}={value}" for name, value in sorted(labels.items()))}
