"""The reference of metrics: a table of names, labels and meanings, from the counters of the engine."""

# prometheus_client has no public way to name the labels of a metric.
# pyright: reportPrivateUsage=false
from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from ..agents.metrics import chassis, libvirt, memcached, ovn
from ..agents.metrics.serve import UP, kind
from ..registry import RESOURCES
from ..runtime import metrics
from ..runtime.serve.exposition import gauges, time_gauges

_HEAD = """# Metrics

## Metrics of the operator

`/metrics` of the operator has these, from the program itself, beside those of its process (`process_…`, `python_…`).
[How to scrape them](../how-to/read-logs-and-metrics.md#metrics-of-the-operator), and [which ones are worth an
alert](../how-to/read-logs-and-metrics.md#alerts). A histogram also has `_bucket`, `_sum` and `_count`. Of two
replicas, the leader alone reports on resources and certificates.

| metric | type | labels | |
| --- | --- | --- | --- |
"""

_SERVERS = """
## Metrics of servers

In a cloud with [`monitoring`](../how-to/monitor-a-cloud.md), Memcached, OVN, Open vSwitch and libvirt have these. Those
of MariaDB, RabbitMQ, etcd, Valkey and haproxy are from these programs themselves or from the usual exporters:
`mysql_…` of mysqld_exporter, `rabbitmq_…`, `etcd_…`, `redis_…` of redis_exporter, `haproxy_…`. Prometheus adds the
labels `namespace`, `pod` and `job`, and `node` to those of nodes.

| metric | type | labels | |
| --- | --- | --- | --- |
"""


def metrics_reference() -> str:
    """Return the page."""
    counters = [each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)]
    rows = [_row(next(iter(each.describe())), each._labelnames) for each in counters]
    rows += [_row(each, each._labelnames) for each in (*gauges(), *time_gauges(RESOURCES).values())]
    return _HEAD + "".join(sorted(rows)) + _SERVERS + "".join(sorted(_rows_of_servers()))


def _rows_of_servers() -> Iterator[str]:
    collected = {**memcached.METRICS, **ovn.METRICS, **chassis.METRICS, **libvirt.METRICS}
    collected |= {
        f"{each}_up": UP for each in ("memcached", "ovn_db", "ovn_northd", "ovs", "ovn_controller", "libvirt")
    }
    for name, (labels, text) in collected.items():
        names = ", ".join(f"`{label}`" for label in labels.split(", ") if label)
        yield f"| `{name}` | {kind(name)} | {names} | {text} |\n"


def _row(metric: Metric, labels: tuple[str, ...]) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return f"| `{name}` | {metric.type} | {', '.join(f'`{label}`' for label in labels)} | {metric.documentation} |\n"
