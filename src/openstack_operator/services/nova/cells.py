"""A cell: its schema, its broker, its place in the map of cells, its conductor and the proxy to its consoles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ... import kube, oslo, parts
from ...plan import Context, Step
from . import config, jobs
from .model import Cell, NovaSpec


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What all cells are built on."""

    credentials: parts.Credentials
    identity: parts.Identity
    notifications: parts.Messaging | None
    config: parts.Config
    """Options of the processes above the cells."""
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
    mapped: tuple[Step, ...]
    """What puts it into the map of cells, which API and scheduler read once, when they start."""
    conductor: Step
    console: str
    """URL of the proxy to the cell's consoles."""


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
    own = oslo.merge(config.database(db.url), bus.options(shared.notifications))
    setup = jobs.cell(ctx, name, shared.config, db.url, bus.url, after=(db, shared.schema))
    wired = oslo.merge(own, config.clients(ctx, shared.identity), config.novncproxy())
    conf = parts.config(ctx, "nova.conf", wired, defaults=config.DEFAULTS, suffix=f"{name}-config")
    needed = (*shared.needed, bus, *setup)
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
            # It does not end when asked to; viewers reconnect either way.
            grace=3,
        ),
        name="NoVNCProxy",
    )
    steps = (db, bus, *setup, conf, conductor, console, proxy)
    return Built(name=name, steps=steps, messaging=bus, mapped=tuple(setup), conductor=conductor, console=url)


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
