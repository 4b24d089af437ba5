"""my.cnf in three layers."""

from __future__ import annotations

import re
from typing import Any

from ... import oslo, parts
from ...api import Sections
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

_PROVIDER = "wsrep_provider_options"
SECURED = f"socket.ssl_ca={TLS}/ca.crt;socket.ssl_cert={TLS}/tls.crt;socket.ssl_key={TLS}/tls.key"
"""How members speak with each other: both sides show a certificate by the same authority."""
EITHER = f"{SECURED};socket.dynamic=yes"
"""The same, or in plain text. Which of both is a matter of half a second, so that it proves nothing; it is for the time
in which not all of them can do the former."""

INCLUDED = "/etc/mysql/record"
"""Folder with the record of the members, which they read while they run."""
_MEMBERS_OWN: dict[str, Any] = dict.fromkeys(
    ["wsrep_cluster_address", "wsrep_node_name", "wsrep_node_address", "wsrep_start_position"], ""
)
"""Given on the command line, since each member has its own."""

_THEIRS: dict[str, Any] = dict.fromkeys(
    ("bind_address", "port", "datadir", "socket", "pid_file", *GALERA, *_ENCRYPTED, *_MEMBERS_OWN)
)
"""Set by mariadb-operator, where that runs the server."""

_SERVER_GROUPS = {"mysqld", "server", "mariadb", "mariadbd", "galera"}


def snapshots(common: str) -> str:
    """Options of the script that copies all data to another member, which reads them each time, for members whose
    certificate has this common name.
    """
    # Both sides check the chain. With VERIFY_CA the donor looks for the joiner's common name, too, and the joiner for a
    # word that only whom it asked within the cluster knows; that fails where there is no name, and the script has it on
    # a command line. encrypt=3 would look for the joiner's address in the certificate.
    plain = re.fullmatch(r"[A-Za-z0-9.*_-]+", common)
    return oslo.render({"sst": {"encrypt": 4, **({"ssl_mode": "VERIFY_CA"} if plain else {})}})


def _layered(defaults: Sections, user: Sections, server: dict[str, Any]) -> Sections:
    """The groups of my.cnf, with these options wired in each of the server's; an indented line is one of its own there.
    Raises SpecError where the user sets an option the operator wires.
    """
    # Dashes and underscores mean the same in option names.
    given = {group: {o.replace("-", "_"): value for o, value in options.items()} for group, options in user.items()}
    # `mariadb-11.8` is a group of that version's server.
    groups = {group for group in given if group in _SERVER_GROUPS or group[-1:].isdigit()} | {"mysqld"}
    return parts.layered(defaults, given, dict.fromkeys(groups, server), multiline=False)


def provided_cnf(user: Sections) -> str:
    """What mariadb-operator adds to its own configuration. Raises SpecError as `my_cnf`."""
    _layered({}, user, _THEIRS)
    # Its databases have a collation: tables that name the character set alone are to have the same, or could not be
    # joined with those that name nothing. Servers older than 11.2 have no other collation, and not this option.
    same = {"loose_character_set_collations": "utf8mb3=utf8mb3_general_ci"}
    server = {option: value for option, value in WIRED.items() if option not in _THEIRS} | same
    return oslo.render(_layered(DEFAULTS, user, server))


def pool_size(user: Sections) -> Any:
    """The size of InnoDB's buffer pool as the user writes it, in the last group that has it; None for the default."""
    sizes = [
        value
        for options in user.values()
        for name, value in options.items()
        if name.replace("-", "_") == "innodb_buffer_pool_size"
    ]
    return sizes[-1] if sizes else None


def my_cnf(
    user: Sections, *, clustered: bool = False, encrypted: bool = False, required: bool = False, among: str = ""
) -> str:
    """The file mariadbd reads; `among` are the options by which members encrypt what they send each other. Raises
    SpecError where the user sets an option the operator wires, in whichever of the server's groups.
    """
    # What comes through the server's socket counts as secure.
    asked = {"require_secure_transport": "ON"} if required else {}
    server = {**WIRED, **(_ENCRYPTED if encrypted else {}), **asked}
    if not clustered:
        return oslo.render(_layered(DEFAULTS, user, server))
    _layered({}, user, _MEMBERS_OWN)
    defaults = oslo.merge(DEFAULTS, GALERA_DEFAULTS)
    wired = {**server, **GALERA}
    found = _layered(defaults, user, wired)
    if not among:
        return oslo.render(found)
    # Options of the provider are one option of the server, in each group anew.
    for group in [group for group, options in found.items() if _PROVIDER in options]:
        options = str(found[group][_PROVIDER])
        if "socket.ssl" in options or "socket.dynamic" in options:
            raise SpecError(
                f"spec.config.{group}.{_PROVIDER}", "the operator sets socket.ssl… and socket.dynamic itself"
            )
        found[group][_PROVIDER] = f"{options};{among}"
    return f"{oslo.render(found)}\n!includedir {INCLUDED}\n"
