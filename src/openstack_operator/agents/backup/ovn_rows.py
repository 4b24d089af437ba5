"""Rows of Neutron, compared with those of OVN's northbound database in the same backup."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .image_data import listed_names
from .repository import Repository
from .run import RunError
from .schemas import schemas_with

_REVISIONS_TABLE = "ovn_revision_numbers"
_MAX_NORTHBOUND = 16 << 20
"""Bytes of a northbound database from which on there is no report, since it would take the memory of the pod."""
_OVSDB_HEADER = re.compile(rb"OVSDB JSON (\d+) [0-9a-f]{40}\n")
_IDENTITY = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# How Neutron names its rows in OVN, and the key by which it knows them again: it leaves all others alone
# (neutron/plugins/ml2/drivers/ovn/mech_driver/ovsdb/impl_idl_ovn.py).
_OVN_NAMES = {
    "network": ("Logical_Switch", re.compile(f"neutron-({_IDENTITY})"), "neutron:network_name"),
    "router": ("Logical_Router", re.compile(f"neutron-({_IDENTITY})"), "neutron:router_name"),
    "port": ("Logical_Switch_Port", re.compile(f"({_IDENTITY})"), "neutron:port_name"),
}
_NEUTRON_ROWS = {
    "network": "SELECT id FROM {schema}.networks",
    # A flavor of the user's has another program.
    "router": "SELECT id FROM {schema}.routers WHERE flavor_id IS NULL",
    # A floating IP has a port for its address alone.
    "port": "SELECT id FROM {schema}.ports WHERE device_owner <> 'network:floatingip'",
}


def network_rows(ask: Callable[[str], str]) -> frozenset[str] | None:
    """Return what Neutron has, such as `port-0a1b…`, by a function from a statement to a server's lines; None if no
    Neutron, or several, use OVN.
    """
    schemas = schemas_with(ask, _REVISIONS_TABLE)
    if len(schemas) != 1:
        return None
    [schema] = schemas
    return frozenset(
        f"{kind}-{identity}"
        for kind, statement in _NEUTRON_ROWS.items()
        for identity in ask(statement.format(schema=schema)).split()
    )


def network_report(
    rows: frozenset[str], repository: Repository, networks: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return what does not fit: `withoutRow`, which OVN has and Neutron does not, and `withoutOVN`, each with its
    `count` and the first few, and the number of `rows` of Neutron. None if the backup has several northbound
    databases. Raise RunError if the database cannot be read, or is too large.
    """
    if len(networks) != 1:
        return None
    [network] = networks
    stored = stored_names(repository.read(network["snapshot"], network["file"], _MAX_NORTHBOUND))
    return {
        "rows": len(rows),
        "withoutRow": listed_names(sorted(stored - rows)),
        "withoutOVN": listed_names(sorted(rows - stored)),
    }


def stored_names(database: bytes) -> frozenset[str]:
    """Return what Neutron has put into a stored northbound database, named as `network_rows` names it. Raise RunError
    for other data.
    """
    try:
        tables = _rows_by_table(database)
        return frozenset(
            f"{kind}-{name[1]}"
            for kind, (table, pattern, mark) in _OVN_NAMES.items()
            for row in tables[table].values()
            if (name := pattern.fullmatch(str(row.get("name", "")))) and mark in _keys_of(row)
        )
    # It may be anybody's who can write the repository.
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        raise RunError(f"the stored northbound database cannot be read: {type(error).__name__}") from None


def _rows_by_table(database: bytes) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the rows of tables by their identities, after all records of the file (ovsdb(5))."""
    tables: dict[str, dict[str, dict[str, Any]]] = {table: {} for table, _, _ in _OVN_NAMES.values()}
    position = 0
    while position < len(database):
        header = _OVSDB_HEADER.match(database, position)
        if not header:
            raise ValueError(position)
        position = header.end() + int(header[1])
        record = json.loads(database[header.end() : position])
        for table, rows in tables.items():
            for identity, row in record.get(table, {}).items():
                rows[identity] = {**rows.get(identity, {}), **row} if row else {}
    return tables


def _keys_of(row: Mapping[str, Any]) -> set[str]:
    """Return the keys of the column `external_ids`, which OVSDB writes as ["map", [[key, value], ...]]."""
    _, pairs = row.get("external_ids", ("map", ()))
    return {str(key) for key, _ in pairs}
