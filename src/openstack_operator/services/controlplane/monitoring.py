"""Alerts of a whole cloud for Prometheus: those that need a person at night."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import kube
from ...api import handle
from ...parts.run.monitoring import MONITORING, POD_MONITOR, RULES, found_by, serves
from ...plan import Context, Object, State, Step, Verdict
from .model import ControlPlaneSpec

_OPERATOR = kube.MANAGED_BY
"""Namespace of the operator in its manifest."""


def monitoring(ctx: Context[ControlPlaneSpec], *, encrypted: bool) -> list[Step]:
    """Return the PrometheusRule `<owner>`, if the cluster has the kind. The verdict is READY, and names kinds that are
    missing, also PodMonitor, which the services use. APIs that are not `encrypted` have no proxy before them, and so
    no metrics.
    """
    if not ctx.spec.monitoring.enabled:
        return []
    missing = [kind for kind in (POD_MONITOR, RULES) if not serves(ctx, kind)]
    rules = () if RULES in missing else (found_by(ctx, _rules(ctx)),)
    notes = [_missing_kinds(ctx, missing)] if missing else []
    notes += [] if encrypted else ["APIs tell nothing: without tls.enabled nothing stands before them"]
    verdict = Verdict(State.READY, "; ".join(notes)) if notes else None
    return [Step(name="Monitoring", objects=rules, verdict=verdict)]


def _missing_kinds(ctx: Context[ControlPlaneSpec], kinds: Sequence[str]) -> str:
    """Return the reason why the operator does not make objects of these kinds."""
    forbidden = ctx.installed_kinds.forbidden(*(handle(MONITORING, kind) for kind in kinds))
    names = " and ".join(f"{kind.lower()}s.monitoring.coreos.com" for kind in kinds)
    return forbidden or f"the cluster does not have {names}, of Prometheus' operator"


def _rules(ctx: Context[ControlPlaneSpec]) -> Object:
    scope = f'namespace="{ctx.namespace}"'
    api, targets = f'{scope}, proxy="api"', f'{scope}, job=~"{ctx.namespace}/.+"'
    failed, all_ = (
        f"sum by (namespace, job) (rate(haproxy_backend_http_responses_total{{{which}}}[5m]))"
        for which in (f'{api}, code="5xx"', api)
    )
    alerts = [
        _alert(
            "OpenStackBrokerBlocked",
            # `or` drops a sample on its right with the labels of one on its left, so compare first.
            f"max by (namespace, pod) (rabbitmq_alarms_memory_used_watermark{{{scope}}}) > 0"
            f" or max by (namespace, pod) (rabbitmq_alarms_free_disk_space_watermark{{{scope}}}) > 0",
            "2m",
            "{{ $labels.pod }} has no memory or no disk left: clients that publish wait, at all members",
        ),
        _alert(
            "OpenStackBrokerApart",
            f"max by (namespace, pod) (rabbitmq_unreachable_cluster_peers_count{{{scope}}}) > 0",
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
            # Without any pod there is no target, and so no `up`; for an hour Prometheus knows that there was one.
            f"(sum by (namespace, job) (up{{{targets}}})"
            f" or 0 * sum by (namespace, job) (max_over_time(up{{{targets}}}[1h]))) == 0",
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
    return kube.obj(ctx, RULES, ctx.owner, MONITORING, spec={"groups": groups})


def _alert(name: str, expression: str, lasting: str, summary: str) -> dict[str, Any]:
    """Return an alert; all of them are critical."""
    metadata = {"labels": {"severity": "critical"}, "annotations": {"summary": summary}}
    return {"alert": name, "expr": expression, "for": lasting, **metadata}
