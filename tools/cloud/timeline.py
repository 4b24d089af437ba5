"""Times at which the steps of a deployment were done, read from the objects themselves."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..localcluster.kubernetes import Kubernetes, ours

_SERVICES = ("keystones", "glances", "placements", "ovnnetworks", "neutrons", "novas", "cinders")
_SERVERS = ("mariadbs", "rabbitmqs", "memcacheds", "mariadbdatabases", "rabbitmqvhosts")
_ENTRIES = ("keystoneusers", "keystoneservices", "cinderbackends", "cindervolumetypes", "cinderquotas")
PLANES = ours("openstackcontrolplanes")
KINDS = (PLANES, *map(ours, (*_SERVERS, *_SERVICES, *_ENTRIES)))


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def timeline(cluster: Kubernetes, namespace: str, started: float) -> list[dict[str, Any]]:
    """Return the seconds after `started` (epoch) at which each condition, pod and job reached its end, in that order.

    Kubernetes keeps these times to the second.
    """
    rows: list[dict[str, Any]] = []
    for item in cluster.items(",".join(KINDS), "-n", namespace):
        for condition in item.get("status", {}).get("conditions", []):
            if condition["status"] == "True" and condition["type"] not in {"Progressing", "Reconciling", "Stalled"}:
                event = f"{item['kind']}/{item['metadata']['name']} {condition['type']}"
                rows.append({"at": _moment(condition["lastTransitionTime"]) - started, "what": event})
    for pod in cluster.items("pods", "-n", namespace):
        rows += _pod(pod, started)
    return sorted(({**row, "at": round(row["at"], 1)} for row in rows), key=lambda row: (row["at"], row["what"]))


def _pod(pod: dict[str, Any], started: float) -> list[dict[str, Any]]:
    name = f"Pod/{pod['metadata']['name']}"
    rows = [{"at": _moment(pod["metadata"]["creationTimestamp"]) - started, "what": f"{name} created"}]
    for status in pod["status"].get("containerStatuses", []):
        ended = status.get("state", {}).get("terminated")
        if begun := (status.get("state", {}).get("running") or ended or {}).get("startedAt"):
            rows.append({"at": _moment(begun) - started, "what": f"{name} {status['name']} started"})
        if ended and ended.get("finishedAt"):
            rows.append({"at": _moment(ended["finishedAt"]) - started, "what": f"{name} {status['name']} ended"})
    for condition in pod["status"].get("conditions", []):
        if condition["type"] == "Ready" and condition["status"] == "True":
            rows.append({"at": _moment(condition["lastTransitionTime"]) - started, "what": f"{name} ready"})
    return rows
