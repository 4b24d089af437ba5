"""Metrics of programs at a separate port, and the objects by which a Prometheus finds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import kube
from ...api import Monitoring, handle
from ...plan import Context, Kind, Object
from ..secrets.tls import Certified
from .policies import IngressRule, ingress_policies

MONITORING = "monitoring.coreos.com/v1"
"""API of the Prometheus operator, in https://prometheus-operator.dev/docs/api-reference/api/."""
POD_MONITOR, RULES = "PodMonitor", "PrometheusRule"
KINDS = tuple(Kind(MONITORING, kind, f"{kind.lower()}s", project="monitoring") for kind in (POD_MONITOR, RULES))
METRICS = "metrics"
"""Name of the port."""
_POD_LABELS = ("app.kubernetes.io/part-of", kube.KIND, kube.INSTANCE, kube.COMPONENT)


def monitored(ctx: Context[Any]) -> bool:
    """Return True if programs are to serve metrics."""
    return monitoring_settings(ctx).enabled


def monitoring_settings(ctx: Context[Any]) -> Monitoring:
    """Return the spec's settings for metrics; the defaults if the kind has none."""
    return getattr(ctx.spec, "monitoring", None) or Monitoring()


def serves(ctx: Context[Any], kind: str) -> bool:
    """Return True if the cluster has this kind of the Prometheus operator."""
    return not ctx.installed_kinds.missing(handle(MONITORING, kind))


def watched(ctx: Context[Any], component: str, port: int, certificate: Certified, service: str) -> tuple[Object, ...]:
    """Return the objects for pods of a component with metrics at `port`: PodMonitor `<owner>-<component>`, if the
    cluster has the kind, and a NetworkPolicy, if the spec enables them. `service` is a name in their certificate.
    """
    ingress = ingress_policies(ctx, IngressRule(component, [port], "monitoring"))
    return (*ingress, *monitor(ctx, ctx.name(component), kube.selector(ctx, component), METRICS, certificate, service))


def monitor(
    ctx: Context[Any],
    name: str,
    pods: Mapping[str, str],
    port: str,
    certificate: Certified,
    service: str,
    *,
    by_node: bool = False,
) -> tuple[Object, ...]:
    """Return a PodMonitor of the pods with these labels, if the spec enables it and the cluster has the kind. It uses
    TLS if they have a certificate, of which `service` is one name. `by_node` adds the label `node` to their metrics.
    """
    if not (monitored(ctx) and serves(ctx, POD_MONITOR)):
        return ()
    # The Secret of the certificate also holds the authorities.
    trust = {"ca": {"secret": {"name": certificate.secret, "key": "ca.crt"}}, "serverName": ctx.host(service)}
    node = [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}]
    endpoint = {
        "port": port,
        **({"scheme": "https", "tlsConfig": trust} if certificate else {}),
        **({"relabelings": node} if by_node else {}),
    }
    spec = {
        "selector": {"matchLabels": dict(pods)},
        "podTargetLabels": list(_POD_LABELS),
        "podMetricsEndpoints": [endpoint],
    }
    return (found_by(ctx, kube.obj(ctx, POD_MONITOR, name, MONITORING, spec=spec)),)


def found_by(ctx: Context[Any], obj: Object) -> Object:
    """Return the object with the labels by which a Prometheus selects it."""
    metadata = obj["metadata"]
    return {**obj, "metadata": {**metadata, "labels": {**monitoring_settings(ctx).labels, **metadata["labels"]}}}
