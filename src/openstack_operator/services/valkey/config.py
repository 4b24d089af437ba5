"""valkey.conf in three layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...api import mebibytes
from ...parts.run.config import is_one_line
from ...plan import SpecError

PORT, TLS_PORT = 6379, 6380
STATE = "/var/lib/valkey"
CONF = "/etc/valkey/valkey.conf"

DEFAULTS: Mapping[str, Any] = {
    # Clients can make again what it holds.
    "maxmemory-policy": "allkeys-lru",
    "appendfsync": "everysec",
    # While a replica is copied again, writes wait for it; five more seconds in case others join are too many.
    "repl-diskless-sync-delay": 0,
}

FIXED_OPTIONS: Mapping[str, Any] = {
    "port": PORT,
    "bind": "* -::*",
    "dir": f"{STATE}/data",
    "protected-mode": "no",
    "daemonize": "no",
    "appendonly": "yes",
    "save": '""',
}

SENTINEL_FIXED_OPTIONS: Mapping[str, Any] = {
    # A primary that was cut off from its copies takes no more writes: they would be lost when it comes back.
    "min-replicas-to-write": 1,
    "min-replicas-max-lag": 3,
}

TLS = "/etc/valkey/tls"
"""Folder of the certificate, its key and the authorities."""
FILES: Mapping[str, str] = {
    "tls-cert-file": f"{TLS}/tls.crt",
    "tls-key-file": f"{TLS}/tls.key",
    "tls-ca-cert-file": f"{TLS}/ca.crt",
}
# Clients, copies and sentinels are known by the password.
_TLS_FIXED: Mapping[str, Any] = {"tls-port": TLS_PORT, "tls-auth-clients": "no", **FILES}

_FIXED_ELSEWHERE = {
    *("tls-replication", "tls-cluster", "tls-client-cert-file", "tls-client-key-file", "tls-ca-cert-dir", *_TLS_FIXED),
    *("include", "loadmodule", "logfile", "maxmemory", "requirepass", "primaryauth", "masterauth", "primaryuser"),
    *("masteruser", "slave-announce-ip", "slave-announce-port"),
    *("min-slaves-to-write", "min-slaves-max-lag", "replicaof", "slaveof", "replica-announce-ip"),
    *("replica-announce-port", "aclfile", "user", "rename-command", "unixsocket", "unixsocketperm"),
}
"""Names that come from a Secret, the spec or the present primary, or would lock the operator's own commands out."""

_NAME = re.compile(r"[a-z0-9-]+")


def tls_options(port: int, peer_tls: str) -> dict[str, Any]:
    """Return options by which a server, or a sentinel, takes TLS on a port, beside plain text until that is refused;
    `peer_tls` is as `Cluster.peer_tls` says. Then it listens at a socket, too, where the release's command checks it.
    """
    options = {**_TLS_FIXED, "tls-port": port, **({"tls-replication": "yes"} if peer_tls else {})}
    return options | ({"port": 0, "unixsocket": f"/tmp/valkey-{port}.sock"} if peer_tls == "only" else {})  # noqa: S108


def valkey_conf(
    user: Mapping[str, Any],
    password: str,
    memory: str,
    *,
    sentinels: bool,
    tls: Mapping[str, Any] | None = None,
    accounts: Sequence[str] = (),
) -> str:
    """Return the file every server reads; `accounts` are as ACLs describe them. Raises SpecError if the user sets a
    fixed option.
    """
    fixed_options = {**FIXED_OPTIONS, **(SENTINEL_FIXED_OPTIONS if sentinels else {}), **(tls or {})}
    from_spec = {"maxmemory": f"{mebibytes(memory)}mb", "requirepass": password, "primaryauth": password}
    merged = {**DEFAULTS, **_user_options(user), **fixed_options, **from_spec}
    lines = [f"{name} {_text(value)}" for name, value in sorted(merged.items())]
    return "".join(f"{line}\n" for line in (*lines, *(f"user {account}" for account in accounts)))


def provided_flags(user: Mapping[str, Any], memory: str) -> list[str]:
    """Return the flags valkey-operator adds to its own for each server. Raises SpecError as `valkey_conf`."""
    merged = {**DEFAULTS, **_user_options(user), "maxmemory": f"{mebibytes(memory)}mb"}
    return [f"--{name} {_text(value)}" for name, value in sorted(merged.items())]


def _user_options(user: Mapping[str, Any]) -> dict[str, Any]:
    options = {name.lower(): value for name, value in user.items()}
    if keys := sorted(
        name for name in options if name in {**FIXED_OPTIONS, **SENTINEL_FIXED_OPTIONS} or name in _FIXED_ELSEWHERE
    ):
        raise SpecError(f"spec.config.{keys[0]}", f"the operator sets {', '.join(keys)} itself; remove it from config")
    for name, value in options.items():
        # A line break would begin a line of its own, past the check for fixed options.
        if not _NAME.fullmatch(name) or not is_one_line(value):
            raise SpecError(f"spec.config.{name!r}", "expected a name of valkey.conf with a value on one line")
    return options


def _text(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
