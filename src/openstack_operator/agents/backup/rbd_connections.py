"""Rows of Nova and Cinder about attached volumes in Ceph: they have the addresses of monitors, and those of a Ceph that
was made again are others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .run import RunError, say
from .schemas import answer_lines, schemas_with

_CONNECTIONS = {"instance_extra": "block_device_mapping", "volume_attachment": "volume_attachment"}
"""Tables with connections, by a table that their schema has, and no other."""
_CONNECTION_ROWS = (
    "SELECT id, HEX(connection_info) FROM {schema}.{table} WHERE deleted = 0 AND connection_info LIKE '%\"hosts\"%'"
)
_UPDATE = "UPDATE {schema}.{table} SET connection_info = CONVERT(X'{text}' USING utf8mb4) WHERE id = '{row}'"


def renew_connections(ask: Callable[[str], str], pools: Sequence[Mapping[str, Any]]) -> int:
    """Write the `monitors` of a pool into the connections of volumes in this `pool`, by a function from a statement to
    a server's lines. Return the number of changed rows. A row that cannot be read, or that has no room for the
    monitors, stays: a user chooses a part of it. Raise RunError if the rows cannot be read at all.
    """
    monitors = {str(pool["pool"]): list(pool["monitors"]) for pool in pools if pool["monitors"]}
    changed = 0
    for marker, table in _CONNECTIONS.items() if monitors else ():
        for schema in schemas_with(ask, marker):
            for line in answer_lines(ask(_CONNECTION_ROWS.format(schema=schema, table=table))):
                row, text = line.split("\t")
                try:
                    connection = json.loads(bytes.fromhex(text))
                    if not row.replace("-", "").isalnum() or not with_monitors(connection, monitors):
                        continue
                    renewed = json.dumps(connection).encode().hex()
                    ask(_UPDATE.format(schema=schema, table=table, text=renewed, row=row))
                except (RunError, ValueError, RecursionError) as error:
                    say(f"{schema}.{table} {row!a} has the monitors of before: {error}")
                    continue
                changed += 1
    return changed


def with_monitors(connection: Any, monitors: Mapping[str, Sequence[str]]) -> bool:
    """Return True if a connection is one of a volume in one of these pools, and has the monitors of the pool now."""
    # Nova has what Cinder has in a field of its own.
    data = connection.get("data", connection) if isinstance(connection, dict) else None
    if not isinstance(data, dict) or not isinstance(data.get("ports"), list) or not data["ports"]:
        return False
    hosts = monitors.get(str(data.get("name")).partition("/")[0])
    if not hosts:
        return False
    data["hosts"], data["ports"] = list(hosts), [data["ports"][0]] * len(hosts)
    return True
