"""Start a member's program with the folder $MEMBER instead of its volumes, and the ports $PORTS, by name of member.

The package `members` is the one that the plan delivers, in a folder of $PYTHONPATH.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

MODULES: list[Any] = [
    import_module(f"members.{name}") for name in ("disk", "galera", "member", "sql", "tables", "wire")
]
disk, galera, member, sql, tables, wire = MODULES
FOLDER, PORTS = Path(os.environ["MEMBER"]), json.loads(os.environ["PORTS"])
_ask = wire.ask


async def ask_on_this_machine(host: str, path: str, name: str) -> Any:
    """Ask the member whose name begins the host's."""
    wire.PORT = PORTS[host.partition(".")[0]]
    return await _ask("127.0.0.1", path, name)


disk.DATA, disk.MEMORY = FOLDER / "data", FOLDER / "data" / "member.json"
sql.SOCKET, member.ACCOUNTS = FOLDER / "mysqld.sock", FOLDER / "accounts.sql"
# Quick decisions, and a second attempt after an error only when a test is over.
member.TICK, member.RETRY, tables.RETRY = 0.05, 3600, 0.1
galera.PORT = PORTS[os.environ["POD_NAME"]]
wire.ask = ask_on_this_machine
asyncio.run(member.Supervisor(sys.argv[1:]).run())
