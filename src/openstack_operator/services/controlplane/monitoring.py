"""What a Prometheus is told of a whole cloud: what is worth waking somebody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import kube, parts
from ...api import handle
from ...plan import Context, Object, State, Step, Verdict
from .model import ControlPlaneSpec

_OPERATOR = kube.MANAGED_BY
"""Namespace of the operator where its manifest put it."""


def monitoring(ctx: Context[ControlPlaneSpec], *, encrypted: bool) -> list[Step]:
    """PrometheusRule `<owner>`, where the cluster has the kind. A kind that is missing is said, also PodMonitor, of
    which the services make theirs, and no reason to fail. APIs that are not `encrypted` have nothing before them that
    would tell.
    """
    if not ctx.spec.monitoring.enabled:
        return []
    missing = [kind for kind in (parts.POD_MONITOR, parts.RULES) if not parts.serves(ctx, kind)]
    rules = () if parts.RULES in missing else (parts.found_by(ctx, _rules(ctx)),)
    said = [_lacking(ctx, missing)] if missing else []
    said += [] if encrypted else ["APIs tell nothing: without tls.enabled nothing stands before them"]
    verdict = Verdict(State.READY, "; ".join(said)) if said else None
    return [Step(name="Monitoring", objects=rules, verdict=verdict)]


def _lacking(ctx: Context[ControlPlaneSpec], kinds: Sequence[str]) -> str:
    """Why objects of these kinds are not made."""
    forbidden = ctx.installed_kinds.forbidden(*(handle(parts.MONITORING, kind) for kind in kinds))
    names = " and ".join(f"{kind.lower()}s.monitoring.coreos.com" for kind in kinds)
    return forbidden or f"the cluster does not have {names}, of Prometheus' operator"


def _rules(ctx: Context[ControlPlaneSpec]) -> Object:
    own = f'namespace="{ctx.namespace}"'
    api = f'{own}, proxy="api"'
    failed, all_ = (
        f"sum by (namespace, job) (rate(haproxy_backend_http_responses_total{{{which}}}[5m]))"
        for which in (f'{api}, code="5xx"', api)
    )
    alerts = [
        _alert(
            "OpenStackBrokerBlocked",
            f"max by (namespace, pod) (rabbitmq_alarms_memory_used_watermark{{{own}}}"
            f" or rabbitmq_alarms_free_disk_space_watermark{{{own}}}) > 0",
            "2m",
            "{{ $labels.pod }} has no memory or no disk left: whoever sends through the broker waits, at all members",
        ),
        _alert(
            "OpenStackBrokerApart",
            f"max by (namespace, pod) (rabbitmq_unreachable_cluster_peers_count{{{own}}}) > 0",
            "5m",
            "{{ $labels.pod }} does not reach {{ $value }} of the other members of its broker",
        ),
        _alert(
            "OpenStackAPIFails",
            f"{failed} / {all_} > 0.1",
            "10m",
            "of the requests to {{ $labels.job }}, {{ $value | humanizePercentage }} are answered with 5xx",
        ),
        _alert(
            "OpenStackSilent",
            f'sum by (namespace, job) (up{{{own}, job=~"{ctx.namespace}/.+"}}) == 0',
            "5m",
            "no pod of {{ $labels.job }} answers Prometheus",
        ),
        _alert(
            "OpenStackOperatorGone",
            f'(sum(leader_election_master_status{{namespace="{_OPERATOR}"}}) or vector(0)) == 0',
            "10m",
            "no openstack-operator acts, or Prometheus does not read its metrics: what fails may not be healed, and "
            "certificates and keys may not be renewed",
        ),
    ]
    groups = [{"name": f"{ctx.namespace}.{ctx.owner}", "rules": alerts}]
    return kube.obj(ctx, parts.RULES, ctx.owner, parts.MONITORING, spec={"groups": groups})


def _alert(name: str, expression: str, lasting: str, summary: str) -> dict[str, Any]:
    """A rule; all of them are worth waking somebody."""
    told = {"labels": {"severity": "critical"}, "annotations": {"summary": summary}}
    return {"alert": name, "expr": expression, "for": lasting, **told}
