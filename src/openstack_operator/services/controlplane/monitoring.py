"""The PrometheusRule of a whole cloud."""

from __future__ import annotations

from collections.abc import Sequence

from ... import kube
from ...api import handle
from ...parts.expose.monitoring import MONITORING, POD_MONITOR, RULES, found_by, serves
from ...parts.run.alerts import alerts
from ...plan import Context, Object, State, Step, Verdict
from .model import ControlPlaneSpec


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
    notes += [] if encrypted else ["APIs have no metrics without the TLS proxy; set tls.enabled"]
    verdict = Verdict(State.READY, "; ".join(notes)) if notes else None
    return [Step(name="Monitoring", objects=rules, verdict=verdict)]


def _missing_kinds(ctx: Context[ControlPlaneSpec], kinds: Sequence[str]) -> str:
    """Return the reason why the operator does not make objects of these kinds."""
    forbidden = ctx.installed_kinds.forbidden(*(handle(MONITORING, kind) for kind in kinds))
    names = " and ".join(f"{kind.lower()}s.monitoring.coreos.com" for kind in kinds)
    return forbidden or f"the cluster lacks {names}; install Prometheus' operator"


def _rules(ctx: Context[ControlPlaneSpec]) -> Object:
    url = ctx.spec.monitoring.runbook_url
    rules = [alert.rule(url) for alert in alerts(ctx.namespace, ctx.operator_namespace)]
    groups = [{"name": f"{ctx.namespace}.{ctx.owner}", "rules": rules}]
    return kube.obj(ctx, RULES, ctx.owner, MONITORING, spec={"groups": groups})
