"""Serve metrics of a member of OVN's databases (`nb` or `sb`), or of ovn-northd (`northd`), as the argument says. The
program's socket is in /run/ovn.
"""

from __future__ import annotations

import re
import sys

from .appctl import COVERAGE, add_coverage, call
from .serve import Collect, Page, export

FOLDER = "/run/ovn"
SCHEMAS = {"nb": "OVN_Northbound", "sb": "OVN_Southbound"}
METRICS = {
    "ovn_db_cluster_member": ("database", "1 if the server is a member of the database's cluster."),
    "ovn_db_cluster_leader": ("database", "1 if the server leads the database's cluster."),
    "ovn_db_cluster_has_leader": ("database", "1 if the server knows a leader."),
    "ovn_db_cluster_term": ("database", "Raft term of the last election the server knows."),
    "ovn_db_cluster_servers": ("database", "Members of the cluster, as the server knows them."),
    "ovn_db_cluster_log_not_committed": ("database", "Raft log entries that a majority does not have yet."),
    "ovn_db_cluster_log_not_applied": ("database", "Raft log entries not applied to the data yet."),
    "ovn_db_cluster_connections": ("database, direction", "Connections with other members."),
    "ovn_db_cluster_disconnections_total": ("database", "Connections with other members that failed."),
    "ovn_db_memory": ("database, component", "Counts of objects in memory: cells, sessions …"),
    "ovn_northd_active": ("", "1 if this northd is active; the others are standby."),
    "ovn_northd_connected": ("database", "1 if the program is connected to the database."),
    "ovn_northd_coverage_total": COVERAGE,
}
_LINE = re.compile(r"^([A-Z][\w ]*): *(.*)$", re.MULTILINE)
_MEMORY = re.compile(r"(?<![\w-])([\w-]{1,64}):(\d{1,20})")


def member(page: Page, database: str) -> None:
    """Add metrics of a member of a database."""
    path, schema = f"{FOLDER}/ovn{database}_db.ctl", SCHEMAS[database]
    text = str(call(path, "cluster/status", schema))
    state = dict(_LINE.findall(text))

    def add(name: str, value: float, /, **labels: str) -> None:
        page.add(f"ovn_db_{name}", value, database=schema, **labels)

    if "Role" not in state:
        raise ValueError(f"cluster/status does not list a role: {text[:80]!r}")
    add("cluster_member", state.get("Status") == "cluster member")
    add("cluster_leader", state["Role"] == "leader")
    add("cluster_has_leader", state.get("Leader") != "unknown")
    add("cluster_term", float(state["Term"]))
    # Each line of a server has its ID and address once.
    add("cluster_servers", text.count(" at "))
    for name in ("committed", "applied"):
        add(f"cluster_log_not_{name}", float(state.get(f"Entries not yet {name}", 0)))
    for direction, arrow in (("out", "->"), ("in", "<-")):
        add("cluster_connections", state.get("Connections", "").count(arrow), direction=direction)
    if "Disconnections" in state:
        add("cluster_disconnections_total", float(state["Disconnections"]))
    for component, number in _MEMORY.findall(str(call(path, "memory/show"))):
        add("memory", float(number), component=component)


def northd(page: Page) -> None:
    """Add metrics of ovn-northd."""
    path = f"{FOLDER}/ovn-northd.ctl"
    is_active = str(call(path, "status")).split()[-1:] == ["active"]
    page.add("ovn_northd_active", is_active)
    for database, schema in SCHEMAS.items():
        state = str(call(path, f"{database}-connection-status")).strip()
        page.add("ovn_northd_connected", state == "connected", database=schema)
    add_coverage(page, "ovn_northd", path)


def collectors(program: str) -> dict[str, Collect]:
    """Return what to collect."""
    return {"ovn_northd": northd} if program == "northd" else {"ovn_db": lambda page: member(page, program)}


if __name__ == "__main__":
    export(collectors(sys.argv[1]), METRICS)
