"""my.cnf in three layers."""

from __future__ import annotations

from typing import Any

from ... import oslo, parts
from ...api import Sections

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

WIRED = {
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

TLS = "/etc/mysql/tls"
"""Folder of the certificate, its key and the authorities."""
_ENCRYPTED: dict[str, Any] = {"ssl_ca": f"{TLS}/ca.crt", "ssl_cert": f"{TLS}/tls.crt", "ssl_key": f"{TLS}/tls.key"}

_MEMBERS_OWN: dict[str, Any] = dict.fromkeys(
    ["wsrep_cluster_address", "wsrep_node_name", "wsrep_node_address", "wsrep_start_position"], ""
)
"""Given on the command line, since each member has its own."""

_SERVER_GROUPS = {"mysqld", "server", "mariadb", "mariadbd", "galera"}


def my_cnf(user: Sections, *, clustered: bool = False, encrypted: bool = False, required: bool = False) -> str:
    """The file mariadbd reads. Raises SpecError where the user sets an option the operator wires, in whichever of
    the server's groups.
    """
    # Dashes and underscores mean the same in option names.
    given = {group: {o.replace("-", "_"): value for o, value in options.items()} for group, options in user.items()}
    # `mariadb-11.8` is a group of that version's server.
    groups = {group for group in given if group in _SERVER_GROUPS or group[-1:].isdigit()} | {"mysqld"}
    # What comes through the server's socket counts as secure.
    asked = {"require_secure_transport": "ON"} if required else {}
    server = {**WIRED, **(_ENCRYPTED if encrypted else {}), **asked}
    if not clustered:
        return oslo.render(parts.layered(DEFAULTS, given, dict.fromkeys(groups, server)))
    parts.layered({}, given, dict.fromkeys(groups, _MEMBERS_OWN))
    defaults = oslo.merge(DEFAULTS, GALERA_DEFAULTS)
    wired = {**server, **GALERA}
    return oslo.render(parts.layered(defaults, given, dict.fromkeys(groups, wired)))
