"""The jobs of Nova: the schemas, the map of cells, and the nodes in it. Each may be cut off anywhere and run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ... import agents, kube, oslo, parts
from ...plan import COMPLETION, Context, Step
from .model import NovaSpec

# All of Nova waits for these, and a new cloud for Nova.
_CPU = "100m"
_PLAIN = parts.ProgramSettings()


def _job(
    ctx: Context[NovaSpec],
    name: str,
    *words: str,
    conf: parts.Config,
    program: parts.ProgramSettings = _PLAIN,
    **job: Any,
) -> Step:
    command = ["python3", "-c", agents.text("nova/map_cells.py"), *words]
    env = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", "CONFIG_DIRECTORY": conf.directory, **program.env}
    return parts.job(ctx, name, command, conf, program=replace(program, env=env, cpu=_CPU), **job)


def schema(ctx: Context[NovaSpec], conf: parts.Config, *, after: tuple[Step, ...]) -> Step:
    """Make the job for the two schemas above the cells, with cell0 in the map."""
    return _job(ctx, "db-sync", "schema", conf=conf, after=after, condition="Schema")


def cell(
    ctx: Context[NovaSpec], name: str, conf: parts.Config, database: str, messaging: str, *, after: tuple[Step, ...]
) -> tuple[parts.Config, Step]:
    """Make the Secret and the job for a cell's schema, with the cell in the map under the URLs `database` and
    `messaging`. The map holds their passwords, so new URLs make a new job.
    """
    options = {"DEFAULT": {"transport_url": messaging}, "database": {"connection": database}}
    secret = parts.written(ctx, {"cell.conf": oslo.render(options)}, suffix=f"{name}-setup", directory=conf.directory)
    program = _of_cell(secret)
    setup = _job(ctx, f"{name}-setup", "cell", name, conf=conf, after=(secret, *after), program=program)
    return secret, setup


def _of_cell(secret: parts.Config) -> parts.ProgramSettings:
    mounts = kube.files("cell", secret.secret, secret.directory, *secret.files)
    return parts.ProgramSettings(mounts=mounts, env={"CELL_DIGEST": secret.digest})


def completion(
    ctx: Context[NovaSpec], conf: parts.Config, cells: Mapping[str, parts.Config], *, after: tuple[Step, ...]
) -> list[Step]:
    """Make the job of each cell that ends an upgrade, after all programs of Nova run the new release; none without an
    upgrade. `cells` are the files of their schemas by name.
    """
    return [
        _job(ctx, f"{name}-{COMPLETION}", "migrate", conf=conf, program=_of_cell(secret), after=after)
        for name, secret in (cells.items() if ctx.upgrades_from and ctx.spec.upgrade.complete else ())
    ]


def hosts(ctx: Context[NovaSpec], conf: parts.Config, nodes: int, *, after: tuple[Step, ...]) -> Step:
    """Make a job that ends when `nodes` compute nodes are in the map: only then, not when pods are up, servers boot."""
    return _job(ctx, "discover-hosts", "hosts", str(nodes), conf=conf, after=after)
