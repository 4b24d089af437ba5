"""A cell: its schema, its broker, its place in the map of cells, its conductor and the proxy to its consoles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ... import kube, oslo, parts
from ...plan import Context, Step
from . import config
from .model import Cell, NovaSpec

CELL0_TEMPLATE = "{scheme}://{username}:{password}@{hostname}:{port}/{path}?{query}"


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all cells are built on."""

    credentials: parts.Credentials
    api_database: parts.Database
    identity: parts.Identity
    schema: Step
    """The schema that holds the map of cells."""
    needed: tuple[Step, ...]
    """What must be ready before any pod of Nova starts."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """A cell's steps, and what its compute nodes are built on."""

    name: str
    steps: tuple[Step, ...]
    messaging: parts.Messaging
    conductor: Step
    console: str
    """URL of the proxy to the cell's consoles."""


def schema(ctx: Context[NovaSpec], conf: parts.Config, *, after: tuple[Step, ...]) -> Step:
    """The job that makes the two schemas above the cells, and enters cell0 into the map.

    cell0's connection is entered as a template: every process that reads the map is configured with cell0's schema as
    its own, so a new password needs no entry.
    """
    script = "\n".join(
        (
            f"{manage(ctx)} api_db sync",
            f"{manage(ctx)} cell_v2 map_cell0 --database_connection '{CELL0_TEMPLATE}'",
            f"exec {manage(ctx)} db sync --local_cell",
        )
    )
    return parts.job(ctx, "db-sync", ["sh", "-ec", script], conf, after=after, condition="Schema")


def cell(ctx: Context[NovaSpec], wanted: Cell, shared: Shared) -> Built:
    """Everything of one cell but its compute nodes."""
    name, creds = wanted.name, shared.credentials
    source = wanted.database or ctx.spec.database.model_copy(update={"database": None})
    db = parts.database(
        ctx,
        creds,
        f"{name}-database",
        source.database or schema_name(ctx, name),
        server=source.mariadb_ref,
        name=f"{name}-db",
    )
    broker = (wanted.messaging or ctx.spec.messaging).rabbitmq_ref
    bus = parts.messaging(ctx, creds, f"{name}-messaging", broker=broker, name=name)
    own = oslo.merge(config.database(db.url), oslo.options.messaging(bus.url))
    above = oslo.merge(own, config.api_database(shared.api_database.url))
    setup_conf = parts.config(ctx, "nova.conf", above, suffix=f"{name}-setup")
    mapped = _mapped(ctx, name, setup_conf, kube.digest([db.url, bus.url]), after=(db, shared.schema))
    wired = oslo.merge(own, config.clients(ctx, shared.identity), config.novncproxy())
    conf = parts.config(ctx, "nova.conf", wired, defaults=config.DEFAULTS, suffix=f"{name}-config")
    needed = (*shared.needed, db, bus, mapped)
    conductor = parts.worker(
        ctx,
        "conductor",
        conf,
        settings=wanted.conductor,
        after=needed,
        ready=parts.CONNECTED_TO_BROKER,
        name=f"{name}-conductor",
        stable=True,
    )
    console, url = _console(ctx, f"{name}-novncproxy")
    proxy = replace(
        parts.worker(
            ctx,
            "novncproxy",
            conf,
            settings=ctx.spec.novncproxy,
            after=needed,
            ready=kube.Probe(http=("/vnc_lite.html", 6080)),
            name=f"{name}-novncproxy",
        ),
        name="NoVNCProxy",
    )
    steps = (db, bus, setup_conf, mapped, conf, conductor, console, proxy)
    return Built(name=name, steps=steps, messaging=bus, conductor=conductor, console=url)


def _mapped(ctx: Context[NovaSpec], name: str, conf: parts.Config, urls: str, *, after: tuple[Step, ...]) -> Step:
    """The job that makes a cell's schema and enters it into the map. `urls` is a digest of what is entered: the map
    holds passwords, so a new one makes a new job.
    """
    script = "\n".join(
        (
            f"{manage(ctx)} db sync --local_cell",
            f"cells=$({manage(ctx)} cell_v2 list_cells)",
            f'uuid=$(echo "$cells" | awk \'$2 == "{name}" {{ print $4 }}\')',
            f'if [ -n "$uuid" ]; then exec {manage(ctx)} cell_v2 update_cell --cell_uuid "$uuid"; fi',
            f"exec {manage(ctx)} cell_v2 create_cell --name {name}",
        )
    )
    return parts.job(ctx, f"{name}-setup", ["sh", "-ec", script], conf, after=after, env={"CELL_URLS": urls})


def _console(ctx: Context[NovaSpec], component: str) -> tuple[Step, str]:
    """The address of a cell's proxy: made at once, since compute nodes hand its URL out."""
    service = ctx.name(component)
    expose = ctx.spec.expose
    wanted = kube.service(ctx, service, {"http": 6080}, kube.selector(ctx, component), type_=expose.type)
    url = parts.public_url(ctx, service, 6080, expose) or f"http://{ctx.host(service)}:6080"
    return Step(name="Console", objects=(wanted,)), url


def schema_name(ctx: Context[NovaSpec], part: str) -> str:
    """SQL name of one of Nova's schemas: nova_api, nova_cell0, nova_cell1."""
    return parts.sql_name(f"{ctx.spec.database.database or ctx.owner}_{part}")


def manage(ctx: Context[NovaSpec]) -> str:
    """nova-manage with its configuration, as a shell writes it."""
    return " ".join(parts.program(ctx, "api").commands["manage"])
