"""Fields about what a service tells of itself: metrics and logs."""

from typing import Literal

from .fields import Labels
from .model import Model


class Monitoring(Model):
    """Metrics for Prometheus."""

    enabled: bool = False
    """Serve metrics on separate ports. Covered are MariaDB, RabbitMQ, Memcached, Valkey, etcd, OVN's databases, the TLS
    proxies of APIs with `tls`, and of libvirt and Open vSwitch on nodes. If the cluster has the Prometheus operator,
    each gets a PodMonitor. A change replaces the pods, except those of nodes."""
    labels: Labels = {}
    """Labels of the PodMonitors and PrometheusRules. Prometheus selects them by these labels, for example `release:
    prometheus`."""


class UsesMonitoring(Model):
    """Mixed into the spec of a service that can serve metrics."""

    monitoring: Monitoring = Monitoring()
    """Metrics for Prometheus, and PodMonitors."""


class Logging(Model):
    """Logs of programs, which go to standard error."""

    format: Literal["text", "json"] = "text"
    """Format of log lines, `text` or `json`. With `json`, each line is an object with message, level, time and request
    IDs, for log collectors. A change replaces the pods."""


class UsesLogging(Model):
    """Mixed into the spec of a service whose programs log by oslo.log."""

    logging: Logging = Logging()
    """Format of the programs' logs."""
