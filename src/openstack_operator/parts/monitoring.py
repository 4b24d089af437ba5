"""Programs that tell of themselves at a port of their own, and where a Prometheus finds that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import kube
from ..api import Monitoring, handle
from ..plan import Context, Object
from .policies import Way, opened
from .tls import Certified

MONITORING = "monitoring.coreos.com/v1"
"""Of Prometheus' operator, in https://prometheus-operator.dev/docs/api-reference/api/."""
POD_MONITOR, RULES = "PodMonitor", "PrometheusRule"
METRICS = "metrics"
"""Name of the port."""
_KEPT = ("app.kubernetes.io/part-of", kube.KIND, kube.INSTANCE, kube.COMPONENT)


def monitored(ctx: Context[Any]) -> bool:
    """Whether programs are to tell of themselves."""
    return wanted(ctx).enabled


def wanted(ctx: Context[Any]) -> Monitoring:
    """What the spec says of it; nothing where it cannot."""
    return getattr(ctx.spec, "monitoring", None) or Monitoring()


def serves(ctx: Context[Any], kind: str) -> bool:
    """Whether the cluster has this kind of Prometheus' operator."""
    return not ctx.installed_kinds.missing(handle(MONITORING, kind))


def watched(ctx: Context[Any], component: str, port: int, shown: Certified, service: str) -> tuple[Object, ...]:
    """Of the pods of a component that tell of themselves at `port`: PodMonitor `<owner>-<component>`, where the cluster
    has the kind, and who may come, where policies are wanted. `service` is a name in the certificate they show.
    """
    way = opened(ctx, Way(component, [port], "monitoring"))
    return (*way, *monitor(ctx, ctx.name(component), kube.selector(ctx, component), METRICS, shown, service))


def monitor(
    ctx: Context[Any], name: str, pods: Mapping[str, str], port: str, shown: Certified, service: str
) -> tuple[Object, ...]:
    """A PodMonitor of the pods with these labels, where that is wanted and the cluster has the kind. By TLS where they
    show a certificate, with `service` as one of its names.
    """
    if not (monitored(ctx) and serves(ctx, POD_MONITOR)):
        return ()
    # The authorities stand beside the certificate.
    trust = {"ca": {"secret": {"name": shown.secret, "key": "ca.crt"}}, "serverName": ctx.host(service)}
    spec = {
        "selector": {"matchLabels": dict(pods)},
        "podTargetLabels": list(_KEPT),
        "podMetricsEndpoints": [{"port": port, **({"scheme": "https", "tlsConfig": trust} if shown else {})}],
    }
    return (found_by(ctx, kube.obj(ctx, POD_MONITOR, name, MONITORING, spec=spec)),)


def found_by(ctx: Context[Any], obj: Object) -> Object:
    """The object with the labels by which a Prometheus chooses."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": {**wanted(ctx).labels, **metadata["labels"]}}}
