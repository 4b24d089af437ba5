"""rabbitmq.conf in three layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube
from ...parts.run.config import is_one_line
from ...plan import SpecError

AMQP = 5672
MANAGEMENT = 15672
AMQPS = 5671
MANAGEMENT_TLS = 15671
METRICS, METRICS_TLS = 15692, 15691
DISTRIBUTION = 25672
EPMD = 4369

DEFAULTS: Mapping[str, Any] = {
    "vm_memory_high_watermark.absolute": "512MiB",
    "disk_free_limit.absolute": "500MB",
    # Unused statistics are most of what an idle broker computes.
    "collect_statistics_interval": 30000,
    "log.console.level": "info",
}

FIXED_OPTIONS: Mapping[str, Any] = {"loopback_users": "none", "log.console": True, "log.file": False}
_UNENCRYPTED: Mapping[str, Any] = {"listeners.tcp.default": AMQP, "management.tcp.port": MANAGEMENT}

TLS = "/etc/rabbitmq/tls"
"""Folder of the certificate, its key and the authorities."""
_FILES = {"cacertfile": f"{TLS}/ca.crt", "certfile": f"{TLS}/tls.crt", "keyfile": f"{TLS}/tls.key"}
# RabbitMQ reads these files again every two minutes. https://www.rabbitmq.com/docs/ssl
_ENCRYPTED: Mapping[str, Any] = {
    "listeners.ssl.default": AMQPS,
    "management.ssl.port": MANAGEMENT_TLS,
    **{f"ssl_options.{key}": path for key, path in _FILES.items()},
    **{f"management.ssl.{key}": path for key, path in _FILES.items()},
    # Clients are known by their passwords.
    "ssl_options.verify": "verify_none",
    **{f"{group}.versions.{n}": f"tlsv1.{4 - n}" for group in ("ssl_options", "management.ssl") for n in (1, 2)},
}

# Of rabbitmq_prometheus: one of the two, so that metrics by TLS are not served without it. False is without.
_METRICS: Mapping[bool, Mapping[str, Any]] = {
    False: {"prometheus.tcp.port": METRICS},
    True: {
        "prometheus.tcp.listener": "none",
        "prometheus.ssl.port": METRICS_TLS,
        **{f"prometheus.ssl.{key}": path for key, path in _FILES.items()},
        **{f"prometheus.ssl.versions.{n}": f"tlsv1.{4 - n}" for n in (1, 2)},
    },
}

_PEER_TLS = ", ".join(
    (
        *(f'{{{key}, "{path}"}}' for key, path in _FILES.items()),
        # With 1.3 of Erlang 27 a connection hangs when its keys are due to change, after 388 GB.
        *("{versions, ['tlsv1.2']}", "{verify, verify_peer}"),
    )
)
INTER_NODE = f"""\
[
  {{server, [{_PEER_TLS}, {{fail_if_no_peer_cert, true}}]}},
  {{client, [{_PEER_TLS},
    {{customize_hostname_check, [{{match_fun, public_key:pkix_verify_hostname_match_fun(https)}}]}}]}}
].
"""
"""Checks between members and the tools beside them: both by the chain, the called one also by its name, for which
Erlang needs an option to take wildcards. A program reads it at its start, the files it names every two minutes."""


@dataclass(frozen=True)
class Listeners:
    """Listeners for clients."""

    plain: bool = True
    tls: bool = False
    monitored: bool = False

    @property
    def metrics(self) -> int:
        """Port at which Prometheus gets metrics, by TLS if there is a certificate."""
        return METRICS_TLS if self.tls else METRICS

    @property
    def plugins(self) -> str:
        """Content of enabled_plugins."""
        names = ["rabbitmq_management", *(["rabbitmq_prometheus"] if self.monitored else [])]
        return f"[{','.join(names)}].\n"

    @property
    def ports(self) -> dict[str, int]:
        """Ports that are open to clients, the broker's and its management's."""
        plain = {"amqp": AMQP, "management": MANAGEMENT} if self.plain else {}
        return {**plain, **({"amqps": AMQPS, "management-tls": MANAGEMENT_TLS} if self.tls else {})}

    @property
    def client_port(self) -> int:
        """Port that is open while the broker takes clients."""
        return AMQP if self.plain else AMQPS

    @property
    def readiness(self) -> kube.Probe:
        """Probe of the program itself: the kernel would accept connections for one that is frozen. Both ports open when
        it starts to serve clients and close when it pauses. The probe is frequent, as another member could answer
        instead.
        """
        port = MANAGEMENT if self.plain else MANAGEMENT_TLS
        return kube.Probe(http=("/", port), tls=not self.plain, period=3, timeout=2, failures=2)


PLAIN = Listeners()

_FIXED_ELSEWHERE = (
    *("default_user", "default_pass", "cluster_formation."),
    *("listeners.ssl", "ssl_options.", "management.ssl."),
    *("listeners.tcp", "management.tcp", "management.listener", "loopback_users"),
)
"""Beginnings of keys; the first account comes from a Secret, the members from the spec, the ports from here."""

_RECONCILIATION = "quorum_queue.continuous_membership_reconciliation"
_REPLICATION: Mapping[str, Any] = {
    # A queue made while there was one member, or before a member lost its disk, gets its copies by itself.
    f"{_RECONCILIATION}.enabled": True,
    f"{_RECONCILIATION}.auto_remove": True,
    f"{_RECONCILIATION}.interval": 30000,
    f"{_RECONCILIATION}.trigger_interval": 2000,
}

ADVANCED = "[{kernel, [{net_ticktime, 20}]}].\n"
"""advanced.config of a cluster: members notice after 15 to 25 seconds that one is frozen or cut off. Until then clients
that declare or bind a queue wait; with Erlang's own 60 that takes up to 84. With 8, members that had no CPU for as
long while all of them started, after a power cut, took each other for cut off, and Mnesia let none go on."""

_KEY = re.compile(r"[A-Za-z0-9_.$-]+")


def rabbitmq_conf(user: Mapping[str, Any], hosts: Sequence[str] = (), *, listeners: Listeners = PLAIN) -> str:
    """Return the file that each host's broker reads. Raises SpecError if the user sets a fixed key."""
    plain = _UNENCRYPTED if listeners.plain else {"listeners.tcp": "none"}
    metrics = _METRICS[listeners.tls] if listeners.monitored else {}
    defaults = dict(DEFAULTS)
    fixed_options = {**FIXED_OPTIONS, **plain, **(_ENCRYPTED if listeners.tls else {}), **metrics}
    if len(hosts) > 1:
        defaults |= _replication(len(hosts))
        fixed_options |= _peer_discovery(hosts)
    return _lines(defaults, user, fixed_options)


def provided_conf(user: Mapping[str, Any], replicas: int) -> str:
    """Return what the cluster operator adds to its own configuration. Raises SpecError as `rabbitmq_conf`."""
    fixed_options = {**FIXED_OPTIONS, "cluster_partition_handling": "pause_minority"}
    text = _lines({**DEFAULTS, **(_replication(replicas) if replicas > 1 else {})}, user, fixed_options)
    return "".join(line for line in text.splitlines(keepends=True) if line.partition(" ")[0] not in fixed_options)


def _replication(members: int) -> Mapping[str, Any]:
    return {**_REPLICATION, f"{_RECONCILIATION}.target_group_size": members}


def _lines(defaults: Mapping[str, Any], user: Mapping[str, Any], fixed_options: Mapping[str, Any]) -> str:
    clashes = sorted(key for key in user if key in fixed_options or key.startswith(_FIXED_ELSEWHERE))
    if clashes:
        raise SpecError(
            f"spec.config.{clashes[0]}", f"the operator sets {', '.join(clashes)} itself; remove it from config"
        )
    for key, value in user.items():
        # A line break would begin a line of its own, past the check for fixed options.
        if not _KEY.fullmatch(key) or not is_one_line(value):
            raise SpecError(f"spec.config.{key!r}", "expected a key of rabbitmq.conf with a value on one line")
    merged = {**defaults, **user, **fixed_options}
    return "".join(f"{key} = {_text(value)}\n" for key, value in sorted(merged.items()))


def _peer_discovery(hosts: Sequence[str]) -> dict[str, Any]:
    """Return the list by which members find each other, for which they need no other program."""
    nodes = {f"cluster_formation.classic_config.nodes.{i}": f"rabbit@{host}" for i, host in enumerate(hosts, 1)}
    return {
        **nodes,
        "cluster_formation.peer_discovery_backend": "classic_config",
        "cluster_formation.target_cluster_size_hint": len(hosts),
        # A member that stops trying would serve clients as a cluster of its own.
        "cluster_formation.discovery_retry_limit": 1000000,
        "cluster_formation.discovery_retry_interval": 1000,
        # The larger part goes on, and what it acknowledges is not undone by a smaller one.
        "cluster_partition_handling": "pause_minority",
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
