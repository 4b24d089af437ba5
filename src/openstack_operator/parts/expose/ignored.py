"""Settings of access from outside, and of metrics, that a plan does not use."""

from __future__ import annotations

from typing import Any

from ...api import Exposure
from ...plan import WORKLOADS, Context, IgnoredFields, Plan, unused
from ..run.monitoring import METRICS, POD_MONITOR

_USES = {
    "NodePort": ("expose.host",),
    "LoadBalancer": ("expose.host",),
    "Ingress": ("expose.host", "expose.domain", "expose.ingress"),
    "Gateway": ("expose.host", "expose.domain", "expose.gateway"),
}
"""Fields that each type uses."""


def ignored_exposure(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the fields of `spec.expose` that its type does not use."""
    expose = getattr(ctx.spec, "expose", None)
    return unused("expose.type", _USES, expose.type) if isinstance(expose, Exposure) else {}


def ignored_monitoring(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return `spec.monitoring` of a resource whose pods serve no metrics."""
    if not hasattr(ctx.spec, "monitoring") or not any(obj["kind"] in WORKLOADS for obj in plan.objects):
        return {}
    if any(obj["kind"] == POD_MONITOR or _serves(obj) for obj in plan.objects):
        return {}
    # A TLS proxy counts the requests of an API; beside a server it is an exporter that does so.
    advice = "set tls" if hasattr(ctx.spec, "expose") else "images of another imageProfile have an exporter"
    return {"monitoring": f"no pod of this resource serves metrics; {advice}"}


def _serves(obj: dict[str, Any]) -> bool:
    """Return True if pods of a workload serve metrics."""
    template = obj.get("spec", {}).get("template", {})
    containers = template.get("spec", {}).get("containers", ()) if isinstance(template, dict) else ()
    return any(port.get("name") == METRICS for each in containers for port in each.get("ports", ()))
