"""Ask a Prometheus that reads a cloud for each panel's data, and draw the answers: `python -m tools.dashboards.live`.

It needs a Prometheus that its operator runs in the namespace `monitoring` of the cluster, or with `--start` begins with
an embedded cluster, a monitored cloud and that Prometheus. It prints the panels without data; the pages are in
build/dashboards.
"""

# ruff: noqa: E402  (nothing else is imported before: it may be in .venv alone)
from __future__ import annotations

from images.venv import use_venv

use_venv("tools.dashboards.live")

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tools.localcluster.kubernetes import ROOT, Kubernetes, existing_cluster

from . import drawing
from .files import PanelQuery, built, queries
from .start import GALERA, start

PAGES = ROOT / "build" / "dashboards"
METRICS = Path(__file__).with_name("metrics.txt")
"""Names of the metrics that a real cloud's Prometheus had: queries may use no other one."""
_API = "/api/v1/namespaces/monitoring/services/prometheus-operated:9090/proxy/api/v1"
_MINUTES, _STEP = 10, 10
"""Length of a graph, and seconds between its points."""
_RECORDED = re.compile(
    r"(up|ALERTS|(haproxy_backend|rabbitmq|mysql|etcd|redis|memcached|ovn|ovs|libvirt|controller_runtime|workqueue|openstack_operator|rest_client"
    r"|leader_election|kubelet|container|machine|process)_.+)"
)
_LEFT_OUT = re.compile(
    r"(mysql_(info_schema|perf)|mysql_global_variables_(?!max_connections)|etcd_debugging|.+_created$).*"
)

_SELDOM = {
    "ALERTS",
    "controller_runtime_reconcile_errors_total",
    "controller_runtime_reconcile_panics_total",
    "kubelet_volume_stats_available_bytes",
    "kubelet_volume_stats_capacity_bytes",
    "kubelet_volume_stats_used_bytes",
    "openstack_operator_refused_objects_total",
}
"""Metrics that exist once an alert fires, something fails, or a volume has a driver that kubelets can measure: those of
the embedded cluster have none.
"""

CLUSTERS = {name: name for name in ("mariadb", "rabbitmq", "etcd", "valkey", "memcached", "ovn")}
"""The resource that a dashboard of clusters shows."""

NAME = re.compile(r"([a-zA-Z_]\w*)\{")
"""A metric in a query."""

Ask = Callable[[str, Mapping[str, str]], Any]
"""Returns the data of an answer of Prometheus' API to a path with parameters."""


def prometheus(cluster: Kubernetes) -> Ask:
    """Return a function that asks the Prometheus of a cluster, through its API server."""

    def ask(path: str, parameters: Mapping[str, str]) -> Any:
        answer = json.loads(cluster.kubectl("get", "--raw", f"{_API}/{path}?{urlencode(parameters)}"))
        if answer["status"] != "success":
            raise ValueError(f"{path}: {answer}")
        return answer["data"]

    return ask


def substituted(expression: str, variables: Mapping[str, str]) -> str:
    """Return the expression with values in the place of its variables."""
    for name, value in variables.items():
        expression = expression.replace(f"${name}", value)
    return expression


def results(ask: Ask, query: PanelQuery, variables: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the series of a panel's query: `metric`, and `values` of a graph or `value` of the others."""
    expression, now = substituted(query.expression, variables), time.time()
    if query.kind != "timeseries":
        return ask("query", {"query": expression, "time": str(now)})["result"]
    between = {"start": str(now - _MINUTES * 60), "end": str(now), "step": str(_STEP)}
    return ask("query_range", {"query": expression, **between})["result"]


def check(ask: Ask, variables: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Write a page for each dashboard with `variables` by its name, and return its panels without data: `dashboard /
    panel: query`. A table shows what is wrong, so it may be empty, and so may a panel of metrics that exist seldom.
    """
    PAGES.mkdir(parents=True, exist_ok=True)
    without_data, answers = list[str](), dict[str, list[tuple[PanelQuery, list[dict[str, Any]]]]]()
    for query in queries(built()):
        values = {"__rate_interval": "1m", **variables[query.dashboard]}
        series_list = results(ask, query, values)
        answers.setdefault(query.dashboard, []).append((query, series_list))
        is_seldom = set(NAME.findall(query.expression)) <= _SELDOM
        if not series_list and query.kind != "table" and not is_seldom:
            without_data.append(f"{query.dashboard} / {query.panel}: {substituted(query.expression, values)}")
    for name, each in answers.items():
        values = ", ".join(f"{key} {value}" for key, value in variables[name].items())
        (PAGES / f"{name}.html").write_text(drawing.page(f"{name} ({values})", each), encoding="utf-8")
    return without_data


def defaults(namespace: str, node: str, clusters: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return variables for each dashboard."""
    cloud = {"namespace": namespace}
    return {
        "openstack-overview": cloud,
        "openstack-service": {**cloud, "service": "keystone"},
        "openstack-node": {**cloud, "node": node},
        **{f"openstack-{kind}": {**cloud, "cluster": name} for kind, name in clusters.items()},
        "openstack-operator": {"operator": "openstack-operator"},
    }


def record(ask: Ask) -> int:
    """Write the names of the metrics that Prometheus has, and return how many there are."""
    all_names: list[str] = ask("label/__name__/values", {})
    names = {name for name in all_names if _RECORDED.fullmatch(name) and not _LEFT_OUT.fullmatch(name)} | _SELDOM
    METRICS.write_text("".join(f"{name}\n" for name in sorted(names)), encoding="utf-8")
    return len(names)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if a panel has no data."""
    parser = argparse.ArgumentParser(prog="python -m tools.dashboards.live", description=__doc__)
    parser.add_argument("-n", "--namespace", default="openstack", help="of the cloud (%(default)s)")
    parser.add_argument("--mariadb", help="of the namespace, to look at (mariadb; with --start, a cluster of three)")
    parser.add_argument("--start", action="store_true", help="begin with a monitored cloud in an embedded cluster")
    parser.add_argument("--record", action="store_true", help=f"write {METRICS.name}, the names of all metrics")
    options = parser.parse_args(arguments)
    if options.start:
        start(PAGES)
        # Rates need samples of a minute.
        time.sleep(60)
    cluster = existing_cluster()
    ask, node = prometheus(cluster), cluster.items("nodes")[0]["metadata"]["name"]
    if options.record:
        print(f"{record(ask)} metrics")
    mariadb: str = options.mariadb or (GALERA if options.start else "mariadb")
    clusters = CLUSTERS | {"mariadb": mariadb}
    without_data = check(ask, defaults(options.namespace, node, clusters))
    for line in without_data:
        print(f"no data: {line}")
    print(f"{len(list(queries(built())))} queries, {len(without_data)} without data; pages in {PAGES}")
    return 1 if without_data else 0


if __name__ == "__main__":
    sys.exit(main())
