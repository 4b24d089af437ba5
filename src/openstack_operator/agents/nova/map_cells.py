"""Make the schemas of Nova, the map of its cells, and the entries of nodes in it: `schema`, `cell NAME`,
`hosts NUMBER`, or `migrate` after an upgrade, with the configuration in CONFIG_DIRECTORY. Each may be interrupted
anywhere and run again.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from nova.cmd import manage  # pyright: ignore[reportMissingImports]

DIRECTORY = os.environ["CONFIG_DIRECTORY"]
NOVA_CONF, CELL_CONF = f"{DIRECTORY}/nova.conf", f"{DIRECTORY}/cell.conf"
CELL0 = "{scheme}://{username}:{password}@{hostname}:{port}/{path}?{query}"
"""Connection of cell0, a template: each process that reads the map of cells has cell0's schema as its own, so that a
new password needs no new entry.
"""


def nova(*words: str, files: tuple[str, ...] = (NOVA_CONF,)) -> list[list[str]]:
    """Run a command of nova-manage and return the rows of its table. Each command is a fork of this process: starting
    Python and Nova's modules again costs more than most commands do.
    """
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(write, 1)
        sys.argv = ["nova-manage", *(f"--config-file={file}" for file in files), *words]
        sys.exit(manage.main())
    os.close(write)
    with os.fdopen(read) as stream:
        output = stream.read()
    print(" ".join(words[:2]), output, sep="\n", end="", flush=True)
    # A newer release has extended the schema, and this one works with it: an upgrade was taken back.
    is_newer = "Can't locate revision identified by" in output
    if os.waitpid(pid, 0)[1] and not is_newer:
        sys.exit(f"nova-manage {' '.join(words[:2])} failed")
    lines = [line.strip("|").split("|") for line in output.splitlines() if line.startswith("|")]
    # The first one has the titles.
    return [[word.strip() for word in line] for line in lines[1:]]


def make_schema() -> None:
    """Make the two schemas above the cells, with cell0 in the map."""
    nova("api_db", "sync")
    nova("cell_v2", "map_cell0", "--database_connection", CELL0)
    nova("db", "sync", "--local_cell")


def make_cell(name: str) -> None:
    """Make a cell's schema, and its entry in the map with the URLs of its database and its broker."""
    nova("db", "sync", "--local_cell", files=(NOVA_CONF, CELL_CONF))
    lines = Path(CELL_CONF).read_text(encoding="utf-8").splitlines()
    options = dict(line.split(" = ", 1) for line in lines if " = " in line)
    entry = ("--transport-url", options["transport_url"], "--database_connection", options["connection"])
    uuids = {row[0]: row[1] for row in nova("cell_v2", "list_cells")}
    if name in uuids:
        nova("cell_v2", "update_cell", "--cell_uuid", uuids[name], *entry)
    else:
        nova("cell_v2", "create_cell", "--name", name, *entry)


def migrate_rows() -> None:
    """Move rows of a cell to where the release keeps them, once no program of an older one runs."""
    nova("db", "online_data_migrations", files=(NOVA_CONF, CELL_CONF))


def await_hosts(number: int) -> None:
    """Return once the map has this number of nodes. Nodes enlist themselves in the database, which sends no notice.
    Each poll admits the nodes in the database, so that none waits for another one that is away.
    """
    while True:
        nova("cell_v2", "discover_hosts")
        if len(nova("cell_v2", "list_hosts")) >= number:
            return
        time.sleep(1)


def main(command: str, *arguments: str) -> None:
    """Run one of the four."""
    if command == "schema":
        make_schema()
    elif command == "cell":
        make_cell(*arguments)
    elif command == "migrate":
        migrate_rows()
    else:
        await_hosts(int(arguments[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
