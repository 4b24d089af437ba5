"""The reference of metrics: a table of names, labels and meanings, from the counters of the engine."""

# prometheus_client has no public way to name the labels of a metric.
# pyright: reportPrivateUsage=false
from __future__ import annotations

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric

from ..runtime import metrics
from ..runtime.exposition import gauges

_HEAD = """# Metrics of the operator

`/metrics` of the operator has these, from the program itself, beside those of its process (`process_…`, `python_…`).
[How to scrape them](../how-to/read-logs-and-metrics.md#metrics-of-the-operator), and [which ones are worth an
alert](../how-to/read-logs-and-metrics.md#alerts). A histogram also has `_bucket`, `_sum` and `_count`. Of two
replicas, the leader alone reports on resources and certificates.

| metric | type | labels | |
| --- | --- | --- | --- |
"""


def metrics_reference() -> str:
    """Return the page."""
    counters = [each for each in vars(metrics).values() if isinstance(each, MetricWrapperBase)]
    rows = [_row(next(iter(each.describe())), each._labelnames) for each in counters]
    rows += [_row(each, each._labelnames) for each in gauges()]
    return _HEAD + "".join(sorted(rows))


def _row(metric: Metric, labels: tuple[str, ...]) -> str:
    name = f"{metric.name}_total" if metric.type == "counter" else metric.name
    return f"| `{name}` | {metric.type} | {', '.join(f'`{label}`' for label in labels)} | {metric.documentation} |\n"
