"""Rows of Placement about the resources that servers use, compared with Nova's rows about these servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .image_data import listed_names
from .schemas import answer_lines, schemas_with

_PLACEMENT_TABLE, _CELL_TABLE, _API_TABLE = "consumer_types", "instance_extra", "cell_mappings"
_CELLS = "SELECT COUNT(*) FROM {schema}.cell_mappings"
_CONSUMERS = "SELECT DISTINCT consumer_id FROM {schema}.allocations"
_SERVERS = "SELECT uuid, host IS NOT NULL AND vm_state IN ({states}) FROM {schema}.instances WHERE deleted = 0"
_STATES_ON_A_NODE = "'active', 'stopped', 'paused', 'suspended', 'rescued'"
# A server that moves has an allocation of its own for the node that it leaves.
_MOVES = "SELECT uuid FROM {schema}.migrations WHERE deleted = 0 AND status NOT IN ({states})"
_ENDED_STATES = "'completed', 'confirmed', 'reverted', 'failed', 'error', 'cancelled', 'done'"


def allocation_report(ask: Callable[[str], str]) -> dict[str, Any] | None:
    """Return what does not fit, by a function from a statement to a server's lines: `withoutServer`, consumers of
    Placement of which no cell knows, and `withoutAllocation`, servers on a node for which Placement holds nothing, each
    with its `count` and the first few; and the number of `servers`. None if the database does not have
    Placement and all cells: one in another database has servers that nothing here knows.
    """
    placements, apis, cells = (schemas_with(ask, table) for table in (_PLACEMENT_TABLE, _API_TABLE, _CELL_TABLE))
    if len(placements) != 1 or len(apis) != 1 or int(ask(_CELLS.format(schema=apis[0]))) != len(cells):
        return None
    consumers = set(ask(_CONSUMERS.format(schema=placements[0])).split())
    servers: dict[str, bool] = {}
    moves: set[str] = set()
    for schema in cells:
        lines = answer_lines(ask(_SERVERS.format(schema=schema, states=_STATES_ON_A_NODE)))
        servers |= {uuid: uses == "1" for uuid, uses in (line.split("\t") for line in lines)}
        moves |= set(ask(_MOVES.format(schema=schema, states=_ENDED_STATES)).split())
    lacking = {uuid for uuid, uses in servers.items() if uses} - consumers
    return {
        "servers": len(servers),
        "withoutServer": listed_names(sorted(consumers - servers.keys() - moves)),
        "withoutAllocation": listed_names(sorted(lacking)),
    }
