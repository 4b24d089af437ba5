"""rabbitmq.conf in three layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube, parts
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
    # Statistics nobody looks at are most of what an idle broker computes.
    "collect_statistics_interval": 30000,
    "log.console.level": "info",
}

WIRED: Mapping[str, Any] = {"loopback_users": "none", "log.console": True, "log.file": False}
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
    **{f"{of}.versions.{n}": f"tlsv1.{4 - n}" for of in ("ssl_options", "management.ssl") for n in (1, 2)},
}

# Of rabbitmq_prometheus: one of the two, so that what is told by TLS is not told without. False is without.
_METRICS: Mapping[bool, Mapping[str, Any]] = {
    False: {"prometheus.tcp.port": METRICS},
    True: {
        "prometheus.tcp.listener": "none",
        "prometheus.ssl.port": METRICS_TLS,
        **{f"prometheus.ssl.{key}": path for key, path in _FILES.items()},
        **{f"prometheus.ssl.versions.{n}": f"tlsv1.{4 - n}" for n in (1, 2)},
    },
}

_AMONG_MEMBERS = ", ".join(
    (
        *(f'{{{key}, "{path}"}}' for key, path in _FILES.items()),
        # With 1.3 of Erlang 27 a connection hangs when its keys are due to change, after 388 GB.
        *("{versions, ['tlsv1.2']}", "{verify, verify_peer}"),
    )
)
INTER_NODE = f"""\
[
  {{server, [{_AMONG_MEMBERS}, {{fail_if_no_peer_cert, true}}]}},
  {{client, [{_AMONG_MEMBERS},
    {{customize_hostname_check, [{{match_fun, public_key:pkix_verify_hostname_match_fun(https)}}]}}]}}
].
"""
"""How members and the tools beside them check each other: both by the chain, who is called also by its name, for which
Erlang needs to be told to take wildcards. Read when a program starts, the files it names again every two minutes."""


@dataclass(frozen=True)
class Ways:
    """How clients may come."""

    plain: bool = True
    encrypted: bool = False
    monitored: bool = False

    @property
    def metrics(self) -> int:
        """Where a Prometheus is told, by TLS where there is a certificate."""
        return METRICS_TLS if self.encrypted else METRICS

    @property
    def plugins(self) -> str:
        """enabled_plugins."""
        names = ["rabbitmq_management", *(["rabbitmq_prometheus"] if self.monitored else [])]
        return f"[{','.join(names)}].\n"

    @property
    def ports(self) -> dict[str, int]:
        """Those that are open to clients, the broker's and its management's."""
        plain = {"amqp": AMQP, "management": MANAGEMENT} if self.plain else {}
        return {**plain, **({"amqps": AMQPS, "management-tls": MANAGEMENT_TLS} if self.encrypted else {})}

    @property
    def serves(self) -> int:
        """One that is open while the broker takes clients."""
        return AMQP if self.plain else AMQPS

    @property
    def answers(self) -> kube.Probe:
        """Whether the program itself answers: the kernel would accept connections for one that is frozen. Both ports
        open when it starts to serve clients and close when it pauses. Asked often, as another member could answer
        instead.
        """
        port = MANAGEMENT if self.plain else MANAGEMENT_TLS
        return kube.Probe(http=("/", port), tls=not self.plain, period=3, timeout=2, failures=2)


PLAIN = Ways()

_WIRED_ELSEWHERE = (
    *("default_user", "default_pass", "cluster_formation."),
    *("listeners.ssl", "ssl_options.", "management.ssl."),
    *("listeners.tcp", "management.tcp", "management.listener", "loopback_users"),
)
"""Beginnings of keys: the first account comes from a Secret, the members from the spec, the ports from here."""

_REPLICATED = "quorum_queue.continuous_membership_reconciliation"
_REPLICATION: Mapping[str, Any] = {
    # A queue made while there was one member, or before a member lost its disk, gets its copies by itself.
    f"{_REPLICATED}.enabled": True,
    f"{_REPLICATED}.auto_remove": True,
    f"{_REPLICATED}.interval": 30000,
    f"{_REPLICATED}.trigger_interval": 2000,
}

ADVANCED = "[{kernel, [{net_ticktime, 20}]}].\n"
"""advanced.config of a cluster: members notice after 15 to 25 seconds that one is frozen or cut off. Until then whoever
declares a queue or binds one waits; with Erlang's own 60 that takes up to 84. With 8, members that had no CPU for as
long while all of them started, after a power cut, took each other for cut off, and Mnesia let none go on."""

_KEY = re.compile(r"[A-Za-z0-9_.$-]+")


def rabbitmq_conf(user: Mapping[str, Any], hosts: Sequence[str] = (), *, ways: Ways = PLAIN) -> str:
    """The file the broker on each of the hosts reads. Raises SpecError where the user sets a key the operator wires."""
    plain = _UNENCRYPTED if ways.plain else {"listeners.tcp": "none"}
    told = _METRICS[ways.encrypted] if ways.monitored else {}
    defaults, wired = dict(DEFAULTS), {**WIRED, **plain, **(_ENCRYPTED if ways.encrypted else {}), **told}
    if len(hosts) > 1:
        defaults |= _replicated(len(hosts))
        wired |= _clustered(hosts)
    return _lines(defaults, user, wired)


def provided_conf(user: Mapping[str, Any], replicas: int) -> str:
    """What the cluster operator adds to its own configuration. Raises SpecError as `rabbitmq_conf`."""
    wired = {**WIRED, "cluster_partition_handling": "pause_minority"}
    text = _lines({**DEFAULTS, **(_replicated(replicas) if replicas > 1 else {})}, user, wired)
    return "".join(line for line in text.splitlines(keepends=True) if line.partition(" ")[0] not in wired)


def _replicated(members: int) -> Mapping[str, Any]:
    return {**_REPLICATION, f"{_REPLICATED}.target_group_size": members}


def _lines(defaults: Mapping[str, Any], user: Mapping[str, Any], wired: Mapping[str, Any]) -> str:
    taken = sorted(key for key in user if key in wired or key.startswith(_WIRED_ELSEWHERE))
    if taken:
        raise SpecError(
            f"spec.config.{taken[0]}", f"the operator sets {', '.join(taken)} itself; remove it from config"
        )
    for key, value in user.items():
        # A line break would begin a line of its own, past the check for what is wired.
        if not _KEY.fullmatch(key) or not parts.is_one_line(value):
            raise SpecError(f"spec.config.{key!r}", "expected a key of rabbitmq.conf with a value on one line")
    merged = {**defaults, **user, **wired}
    return "".join(f"{key} = {_text(value)}\n" for key, value in sorted(merged.items()))


def _clustered(hosts: Sequence[str]) -> dict[str, Any]:
    """How members find each other: by a list, for which nobody need be asked."""
    nodes = {f"cluster_formation.classic_config.nodes.{i}": f"rabbit@{host}" for i, host in enumerate(hosts, 1)}
    return {
        **nodes,
        "cluster_formation.peer_discovery_backend": "classic_config",
        "cluster_formation.target_cluster_size_hint": len(hosts),
        # A member that gave up would serve clients as a cluster of its own.
        "cluster_formation.discovery_retry_limit": 1000000,
        "cluster_formation.discovery_retry_interval": 1000,
        # The larger part goes on, and what it acknowledges is not undone by a smaller one.
        "cluster_partition_handling": "pause_minority",
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
