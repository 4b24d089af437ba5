"""Settings of access from outside and to the outside, and of metrics, that a plan does not use."""

from __future__ import annotations

from typing import Any

from ...api import Exposure, RemoteAccess, UsesEnvironment, models_in
from ...kube.environment import has_proxy
from ...plan import WORKLOADS, Context, IgnoredFields, Plan, unused
from .monitoring import METRICS, POD_MONITOR

_BALANCED = ("loadBalancerClass", "loadBalancerIP", "loadBalancerSourceRanges")
_USES = {
    "NodePort": ("expose.host", "expose.externalTrafficPolicy"),
    "LoadBalancer": ("expose.host", "expose.externalTrafficPolicy", *(f"expose.{name}" for name in _BALANCED)),
    "Ingress": ("expose.host", "expose.domain", "expose.ingress"),
    "Gateway": ("expose.host", "expose.domain", "expose.gateway"),
}
"""Fields that each type uses."""


def ignored_exposure(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return the fields of `spec.expose`, and of access for remote programs, that its type does not use."""
    expose = getattr(ctx.spec, "expose", None)
    ignored = unused("expose.type", _USES, expose.type) if isinstance(expose, Exposure) else {}
    for path, at in models_in(ctx.spec):
        if isinstance(at, RemoteAccess):
            field = path.removeprefix("spec.")
            uses = {"LoadBalancer": [f"{field}.{name}" for name in _BALANCED]}
            ignored |= unused(f"{field}.type", uses, at.type)
    return ignored


def ignored_proxy(ctx: Context[Any], plan: Plan) -> IgnoredFields:
    """Return `spec.proxy.noProxy` of a service without a proxy."""
    spec = ctx.spec
    if not isinstance(spec, UsesEnvironment) or spec.env_secret_ref or has_proxy(spec):
        return {}
    return {"proxy.noProxy": "it has no effect without a proxy; set proxy.httpProxy or proxy.httpsProxy"}


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
