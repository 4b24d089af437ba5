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
    console, proxy, url = _console(ctx, f"{name}-novncproxy", conf, after=needed)
    steps = (db, bus, *setup, conf, conductor, console, proxy)
    return Built(name=name, steps=steps, messaging=bus, mapped=tuple(setup), conductor=conductor, console=url)


CONSOLE = 6080


def _console(
    ctx: Context[NovaSpec], component: str, conf: parts.Config, *, after: tuple[Step, ...]
) -> tuple[Step, Step, str]:
    """The address of a cell's proxy, made at once, since compute nodes hand its URL out; the proxy; and that URL."""
    service, expose = ctx.name(component), ctx.spec.expose
    program = parts.program(ctx, "novncproxy")
    tls = parts.front(ctx, component, CONSOLE, program, host=parts.public_host(ctx, service, expose))
    proxy = parts.worker(
        ctx,
        "novncproxy",
        conf,
        settings=ctx.spec.novncproxy,
        after=after,
        ready=kube.Probe(http=("/vnc_lite.html", CONSOLE), tls=bool(tls)),
        name=component,
        # It does not end when asked to; viewers reconnect either way.
        grace=3,
        more=parts.More(env={"OS_VNC__NOVNCPROXY_HOST": tls.listens} if tls else {}, containers=tls.containers),
    )
    wanted = kube.service(ctx, service, {"http": CONSOLE}, kube.selector(ctx, component), type_=expose.type)
    url = parts.public_url(ctx, service, CONSOLE, expose, tls.scheme) or f"{tls.scheme}://{ctx.host(service)}:{CONSOLE}"
    return (
        Step(name="Console", objects=(wanted,)),
        replace(proxy, name="NoVNCProxy", own=tls.certificate.steps),
        url,
    )


def schema_name(ctx: Context[NovaSpec], part: str) -> str:
    """SQL name of one of Nova's schemas: nova_api, nova_cell0, nova_cell1."""
    return parts.sql_name(f"{ctx.spec.database.database or ctx.owner}_{part}")
