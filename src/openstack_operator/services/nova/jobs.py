"""The jobs of Nova: the schemas, the map of cells, and the nodes in it. Each may be cut off anywhere and run again."""

from __future__ import annotations

from typing import Any

from ... import kube, oslo, parts
from ...plan import Context, Step
from .model import NovaSpec

MANAGE = """\
import os, sys
from nova.cmd import manage

# Each command is a fork of this process: starting Python and Nova's modules anew costs more than most commands do.
def nova(*words, files=("/etc/nova/nova.conf",)):
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.dup2(write, 1)
        sys.argv = ["nova-manage", *(f"--config-file={file}" for file in files), *words]
        sys.exit(manage.main())
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    print(" ".join(words[:2]), said, sep="\\n", end="", flush=True)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"nova-manage {' '.join(words[:2])} failed")
    return [[word.strip() for word in line.strip("|").split("|")] for line in said.splitlines() if line[:1] == "|"]

"""

# cell0's connection is a template: each process that reads the map of cells has cell0's schema as its own, so a new
# password needs no new entry.
SCHEMA = """\
nova("api_db", "sync")
nova("cell_v2", "map_cell0", "--database_connection", "{scheme}://{username}:{password}@{hostname}:{port}/{path}?{query}")
nova("db", "sync", "--local_cell")
"""

CELL = """\
name, cell = sys.argv[1], "/etc/nova/cell.conf"
nova("db", "sync", "--local_cell", files=("/etc/nova/nova.conf", cell))
with open(cell) as lines:
    own = dict(line.strip().split(" = ", 1) for line in lines if " = " in line)
entry = ("--transport-url", own["transport_url"], "--database_connection", own["connection"])
known = {row[0]: row[1] for row in nova("cell_v2", "list_cells")}
if name in known:
    nova("cell_v2", "update_cell", "--cell_uuid", known[name], *entry)
else:
    nova("cell_v2", "create_cell", "--name", name, *entry)
"""

# Nodes enlist themselves in the database, which sends no notice: the job polls it until it has as many as pods.
# Each poll admits the nodes in the database, so that none waits for another one that is away.
HOSTS = """\
import time
while True:
    nova("cell_v2", "discover_hosts")
    if len(nova("cell_v2", "list_hosts")) > int(sys.argv[1]):
        break
    time.sleep(1)
"""


def _job(ctx: Context[NovaSpec], name: str, program: str, *words: str, conf: parts.Config, **job: Any) -> Step:
    command = ["python3", "-c", MANAGE + program, *words]
    env = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", **job.pop("env", {})}
    return parts.job(ctx, name, command, conf, env=env, **job)


def schema(ctx: Context[NovaSpec], conf: parts.Config, *, after: tuple[Step, ...]) -> Step:
    """Make the job for the two schemas above the cells, with cell0 in the map."""
    return _job(ctx, "db-sync", SCHEMA, conf=conf, after=after, condition="Schema")


def cell(
    ctx: Context[NovaSpec], name: str, conf: parts.Config, database: str, messaging: str, *, after: tuple[Step, ...]
) -> tuple[Step, Step]:
    """Make the Secret and the job for a cell's schema, with the cell in the map under the URLs `database` and
    `messaging`. The map holds their passwords, so new URLs make a new job.
    """
    options = {"DEFAULT": {"transport_url": messaging}, "database": {"connection": database}}
    secret = parts.written(ctx, {"cell.conf": oslo.render(options)}, suffix=f"{name}-setup", directory="/etc/nova")
    setup = _job(
        ctx,
        f"{name}-setup",
        CELL,
        name,
        conf=conf,
        after=(secret, *after),
        mounts=kube.files("cell", secret.secret, secret.directory, *secret.files),
        env={"CELL_DIGEST": secret.digest},
    )
    return secret, setup


def hosts(ctx: Context[NovaSpec], conf: parts.Config, nodes: int, *, after: tuple[Step, ...]) -> Step:
    """Make a job that ends when `nodes` compute nodes are in the map: only then, not when pods are up, servers boot."""
    return _job(ctx, "discover-hosts", HOSTS, str(nodes), conf=conf, after=after)
