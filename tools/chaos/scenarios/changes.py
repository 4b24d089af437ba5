"""Changes that restart everything while it is used."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .. import services
from ..journal import now
from ..scenario import Stage, scenario
from ..site import Object, Site, until

_APIS = (
    *("users", "networks", "ports", "images", "RPC"),
    *("secrets", "zones", "stacks", "load balancers", "dashboard"),
)
"""Kinds of the load that ask an API. Connections to the database and the broker go with the member they are to."""
_PATIENCE = 60.0
"""Seconds a client waits, as most do at least: one at a time, all pods are replaced on a busy machine."""


def steps(optional: Sequence[str] = ()) -> dict[str, Object]:
    """Return, by component, a harmless change of the control plane's spec that restarts its pods, another one at each
    call.
    """
    number = round(time.time()) % 1000 + 1000
    option: dict[str, Any] = {"config": {"DEFAULT": {"max_logfile_count": number}}}
    setting = {"config": {"local_settings": {"API_RESULT_LIMIT": number}}}
    memory = {"requests": {"memory": f"{100 + number % 20}Mi"}}
    return {
        "keystone": {"keystone": option},
        "placement": {"placement": option},
        "glance": {"glance": option},
        "neutron": {"neutron": option},
        "nova": {"nova": option},
        "memcached": {"memcached": {"maxConnections": number}},
        "rabbitmq": {"rabbitmq": {"config": {"channel_max": number}}},
        "mariadb": {"mariadb": {"config": {"mysqld": {"max_connect_errors": number}}}},
        "ovn": {"ovn": {"northbound": {"resources": memory}, "southbound": {"resources": memory}}},
        # The dashboard has other settings.
        **{service: {service: setting if service == "horizon" else option} for service in optional},
    }


@scenario(18, "A rolling update of every component, one after the other")
def rolled(stage: Stage) -> None:
    site, start = stage.site, now()
    refused: dict[str, dict[str, int]] = {}
    took: dict[str, float] = {}
    with stage.patience(_PATIENCE):
        for component, spec in steps(services.enabled(site)).items():
            before, began = _pods(site, component), now()
            site.patch(spec)
            until(f"a pod of {component} to be replaced", lambda c=component, b=before: _pods(site, c) != b, 120)
            stage.await_recovery(f"the roll-out of {component}", began, timeout=900)
            took[component] = round(now() - began, 1)
            failed = {kind: count for kind, count in stage.journal.failed(began).items() if kind.startswith(_APIS)}
            if failed:
                refused[component] = failed
    api_attempts = [attempt for attempt in stage.journal.between(start) if attempt.kind.startswith(_APIS)]
    slowest = max((attempt.ended - attempt.began for attempt in api_attempts), default=0.0)
    stage.note(rolled_seconds=took, api_requests=len(api_attempts), slowest_seconds=round(slowest, 1))
    stage.check(api_attempts, "no API was asked")
    stage.check(not refused, f"requests failed: {refused}")


def _pods(site: Site, component: str) -> set[str]:
    pods = site.pods()
    return {p["metadata"]["uid"] for p in pods if p["metadata"]["name"].startswith(f"{component}-")}
