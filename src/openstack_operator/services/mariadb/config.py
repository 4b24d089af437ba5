"""my.cnf in three layers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ... import oslo
from ...api import Sections
from ...parts.run.option_groups import merge_groups
from ...plan import SpecError

PORT = 3306

DEFAULTS: Sections = {
    "mysqld": {
        "max_connections": 1024,
        # A minimal cloud's tables fit; the server as a whole stays under 200 MiB.
        "innodb_buffer_pool_size": "128M",
        "innodb_log_file_size": "64M",
        "table_open_cache": 512,
        "table_definition_cache": 512,
        "key_buffer_size": "1M",
        "aria_pagecache_buffer_size": "8M",
        "tmp_table_size": "8M",
        "performance_schema": False,
        # Every check of the port would be a line about a client that left.
        "log_warnings": 1,
    }
}

FIXED_OPTIONS = {
    "bind_address": "0.0.0.0",  # noqa: S104  (the address of a pod is not known beforehand)
    "port": PORT,
    "datadir": "/var/lib/mysql",
    "socket": "/run/mysqld/mysqld.sock",
    "pid_file": "/run/mysqld/mysqld.pid",
    # Clients come from pods, whose addresses have no names worth a lookup.
    "skip_name_resolve": True,
    "character_set_server": "utf8mb4",
    "collation_server": "utf8mb4_general_ci",
    "default_storage_engine": "InnoDB",
    # What Galera needs, so that a single server can become a cluster.
    "binlog_format": "ROW",
    "innodb_autoinc_lock_mode": 2,
    "wsrep_on": False,
    # MariaDB 11.6.2 and newer would answer OpenStack's transactions with error 1020 (MDEV-35124).
    "innodb_snapshot_isolation": False,
}

GALERA_DEFAULTS: Sections = {
    "mysqld": {
        "wsrep_slave_threads": 2,
        # What a member missed for a while is sent from here, not the whole database.
        "wsrep_provider_options": "gcache.size=128M;gcache.recover=yes",
    }
}

GALERA = {
    "wsrep_on": True,
    "wsrep_provider": "/usr/lib/galera/libgalera_smm.so",
    "wsrep_cluster_name": "mariadb",
    "wsrep_sst_method": "mariabackup",
    # The account of the system's user, known by the socket: no password.
    "wsrep_sst_auth": "mysql:",
    # What was acknowledged is on the disk: a power cut takes all members at once.
    "innodb_flush_log_at_trx_commit": 1,
}

BINARY_LOG = {
    "log_bin": "binlog",
    "log_slave_updates": True,
    # What was acknowledged is in the log after a power cut, and no client reads what is not in it yet.
    "sync_binlog": 1,
}

GALERA_BINARY_LOG = {
    # A change has the same GTID on each member.
    "wsrep_gtid_mode": True,
    # After a crash of all members MariaDB goes on in this domain, whatever the option says.
    "wsrep_gtid_domain_id": 0,
    # A change that a member makes for itself would have a GTID that is another change elsewhere.
    "wsrep_mode": "DISALLOW_LOCAL_GTID",
}

TLS = "/etc/mysql/tls"
"""Folder of the certificate, its key and the authorities."""
_TLS_OPTIONS: dict[str, Any] = {"ssl_ca": f"{TLS}/ca.crt", "ssl_cert": f"{TLS}/tls.crt", "ssl_key": f"{TLS}/tls.key"}

_PROVIDER = "wsrep_provider_options"
TLS_ONLY = f"socket.ssl_ca={TLS}/ca.crt;socket.ssl_cert={TLS}/tls.crt;socket.ssl_key={TLS}/tls.key"
"""Options by which members speak TLS with each other: both sides show a certificate by the same authority."""
TLS_OR_PLAIN = f"{TLS_ONLY};socket.dynamic=yes"
"""The same, but members take plain text, too. Half a second decides which of both they use, so that it proves nothing;
it is for the time in which not all of them can speak TLS."""

RECORD_DIRECTORY = "/etc/mysql/record"
"""Folder with the record of the members, which they read while they run."""
_PER_MEMBER: dict[str, Any] = dict.fromkeys(
    ["wsrep_cluster_address", "wsrep_node_name", "wsrep_node_address", "wsrep_start_position"], ""
)
"""Options on the command line, since each member has its own."""

_SET_BY_OPERATOR: dict[str, Any] = dict.fromkeys(
    ("bind_address", "port", "datadir", "socket", "pid_file", *GALERA, *_TLS_OPTIONS, *_PER_MEMBER)
)
"""Options that mariadb-operator sets, if it runs the server."""


def sst_conf(common_name: str) -> str:
    """Return options of the script that copies all data to another member, which reads them each time, for members
    whose certificate has this common name.
    """
    # Both sides check the chain. With VERIFY_CA the donor looks for the joiner's common name, too, and the joiner for a
    # word that only the donor it asked within the cluster knows; that fails without a name, and the script puts the
    # name on a command line. encrypt=3 would look for the joiner's address in the certificate.
    plain = re.fullmatch(r"[A-Za-z0-9.*_-]+", common_name)
    return oslo.render({"sst": {"encrypt": 4, **({"ssl_mode": "VERIFY_CA"} if plain else {})}})


def provided_cnf(user: Sections) -> str:
    """Return what mariadb-operator adds to its own configuration. Raises SpecError as `my_cnf`."""
    merge_groups({}, user, _SET_BY_OPERATOR)
    # Its databases have a collation: tables that name the character set alone are to have the same, or could not be
    # joined with those that name nothing. Servers older than 11.2 have no other collation, and not this option.
    collations = {"loose_character_set_collations": "utf8mb3=utf8mb3_general_ci"}
    server = {option: value for option, value in FIXED_OPTIONS.items() if option not in _SET_BY_OPERATOR} | collations
    return oslo.render(merge_groups(DEFAULTS, user, server))


def pool_size(user: Sections) -> Any:
    """Return the size of InnoDB's buffer pool as the user writes it, in the last group that has it; None without it."""
    sizes = [
        value
        for options in user.values()
        for name, value in options.items()
        if name.replace("-", "_") == "innodb_buffer_pool_size"
    ]
    return sizes[-1] if sizes else None


@dataclass(frozen=True)
class BinaryLog:
    """Binary log of a server."""

    server_id: int
    """Part of each GTID."""
    lifetime: timedelta
    """Age at which files of it are removed."""
    size: int
    """Bytes of all its files, roughly, at which the oldest is removed, too."""

    @property
    def defaults(self) -> Sections:
        """Options that a user may change."""
        options = {
            "max_binlog_size": min(64 << 20, self.size // 8),
            # MariaDB older than 11.4 knows neither of these two, and needs no replica to remove old files.
            "loose_max_binlog_total_size": self.size,
            "loose_slave_connections_needed_for_purge": 0,
        }
        return {"mysqld": options}

    def options(self, *, clustered: bool) -> dict[str, Any]:
        """Return options that the operator sets."""
        options = {
            **BINARY_LOG,
            "server_id": self.server_id,
            "binlog_expire_logs_seconds": int(self.lifetime.total_seconds()),
        }
        return {**options, **GALERA_BINARY_LOG} if clustered else options


def sets_any(user: Sections, options: Iterable[str]) -> bool:
    """Return True if a user's options set one of these, by whatever name."""
    try:
        merge_groups({}, user, dict.fromkeys(options))
    except SpecError:
        return True
    return False


def my_cnf(
    user: Sections,
    *,
    clustered: bool = False,
    encrypted: bool = False,
    required: bool = False,
    peer_tls: str = "",
    binary_log: BinaryLog | None = None,
) -> str:
    """Return the file mariadbd reads; `peer_tls` are the options by which members encrypt what they send each other.
    Raises SpecError if the user sets a fixed option, in any of the server's groups.
    """
    # What comes through the server's socket counts as secure.
    enforcement = {"require_secure_transport": "ON"} if required else {}
    server = {**FIXED_OPTIONS, **(_TLS_OPTIONS if encrypted else {}), **enforcement}
    defaults = DEFAULTS
    if binary_log:
        server |= binary_log.options(clustered=clustered)
        defaults = oslo.merge(defaults, binary_log.defaults)
    if not clustered:
        return oslo.render(merge_groups(defaults, user, server))
    merge_groups({}, user, _PER_MEMBER)
    defaults = oslo.merge(defaults, GALERA_DEFAULTS)
    fixed_options = {**server, **GALERA}
    merged = merge_groups(defaults, user, fixed_options)
    if not peer_tls:
        return oslo.render(merged)
    # All options of the provider are one option of the server, and each group has its own.
    for group in [group for group, options in merged.items() if _PROVIDER in options]:
        options = str(merged[group][_PROVIDER])
        if "socket.ssl" in options or "socket.dynamic" in options:
            raise SpecError(
                f"spec.config.{group}.{_PROVIDER}", "the operator sets socket.ssl… and socket.dynamic itself"
            )
        merged[group][_PROVIDER] = f"{options};{peer_tls}"
    return f"{oslo.render(merged)}\n!includedir {RECORD_DIRECTORY}\n"
