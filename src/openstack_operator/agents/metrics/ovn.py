"""Serve metrics of a member of OVN's databases (`nb` or `sb`), or of ovn-northd (`northd`), as the argument says. The
program's socket is in /run/ovn.
"""

from __future__ import annotations

import re
import sys

from .appctl import add_coverage, call
from .serve import Collect, Page, export

FOLDER = "/run/ovn"
SCHEMAS = {"nb": "OVN_Northbound", "sb": "OVN_Southbound"}
_LINE = re.compile(r"^([A-Z][\w ]*): *(.*)$", re.MULTILINE)
_MEMORY = re.compile(r"([\w-]+):(\d+)")


def member(page: Page, database: str) -> None:
    """Add metrics of a member of a database."""
    path, schema = f"{FOLDER}/ovn{database}_db.ctl", SCHEMAS[database]
    text = str(call(path, "cluster/status", schema))
    state = dict(_LINE.findall(text))

    def add(name: str, value: float, meaning: str, /, **labels: str) -> None:
        page.add(f"ovn_db_{name}", value, meaning, database=schema, **labels)

    if "Role" not in state:
        raise ValueError(f"cluster/status has no role: {text[:80]!r}")
    add("cluster_member", state.get("Status") == "cluster member", "1 if it is a member of the database's cluster.")
    add("cluster_leader", state["Role"] == "leader", "1 if it leads the database's cluster.")
    add("cluster_has_leader", state.get("Leader") != "unknown", "1 if it knows a leader.")
    add("cluster_term", float(state["Term"]), "Number of the election whose result it knows.")
    # Each line begins with the server's ID, and ends with where the leader is with it.
    add("cluster_servers", text.count(" at "), "Members of the cluster, as it knows them.")
    for name, key in (("not_committed", "Entries not yet committed"), ("not_applied", "Entries not yet applied")):
        add(f"cluster_log_{name}", float(state.get(key, 0)), f"{key} of its log.")
    for direction, arrow in (("out", "->"), ("in", "<-")):
        number = state.get("Connections", "").count(arrow)
        add("cluster_connections", number, "Connections with other members.", direction=direction)
    if "Disconnections" in state:
        add("cluster_disconnections_total", float(state["Disconnections"]), "Connections with others that broke off.")
    for component, number in _MEMORY.findall(str(call(path, "memory/show"))):
        add("memory", float(number), "Numbers of what it holds in its memory: cells, sessions …", component=component)


def northd(page: Page) -> None:
    """Add metrics of ovn-northd."""
    path = f"{FOLDER}/ovn-northd.ctl"
    is_active = str(call(path, "status")).split()[-1:] == ["active"]
    page.add("ovn_northd_active", is_active, "1 if it works; the others stand by.")
    for database, schema in SCHEMAS.items():
        state = str(call(path, f"{database}-connection-status")).strip()
        text = "1 if it is connected to the database."
        page.add("ovn_northd_connected", state == "connected", text, database=schema)
    add_coverage(page, "ovn_northd", path)


def collectors(program: str) -> dict[str, Collect]:
    """Return what to collect."""
    return {"ovn_northd": northd} if program == "northd" else {"ovn_db": lambda page: member(page, program)}


if __name__ == "__main__":
    export(collectors(sys.argv[1]))
