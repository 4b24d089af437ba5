"""A cell: its schema, its broker, its place in the map of cells, its conductor and the proxy to its consoles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from ... import kube, oslo, parts
from ...plan import Context, SpecError, Step, key
from . import config, consoles, jobs
from .consoles import Consoles
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
    consoles: Consoles


@dataclass(frozen=True, kw_only=True)
class Built:
    """A cell's steps, and what its compute nodes are built on."""

    name: str
    database: parts.Database
    shares: Sequence[str]
    """What the label `openstack-cell` says of its nodes."""
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
    source, path = ctx.spec.database, "spec.database"
    own_name = schema_name(ctx, name)
    if wanted.database:
        source, path = wanted.database, f"spec.cells[{ctx.spec.cells.index(wanted)}].database"
        own_name = parts.schema_of(ctx, source, own_name, path=path)
    db = parts.database(ctx, creds, f"{name}-database", own_name, source=source, name=f"{name}-db", path=path)
    bus = _messaging(ctx, wanted, creds)
    own = oslo.merge(config.database(db.url), bus.options(shared.notifications))
    setup = jobs.cell(ctx, name, shared.config, db.url, bus.url, after=(db, shared.schema))
    screens, component = shared.consoles, f"{name}-novncproxy"
    expose, program = ctx.spec.expose, parts.program(ctx, "novncproxy")
    host, proxied = parts.public_host(ctx, ctx.name(component), expose), parts.through_proxy(expose)
    tls = parts.front(ctx, component, CONSOLE, program, host=host, proxied=proxied, tunnels=True)
    shown = screens.options(required=tls.certificate.required)
    # The last two are the proxy's, which has a file of its own. They stay, since another file is another conductor.
    wired = oslo.merge(own, config.clients(ctx, shared.identity), config.novncproxy(), shown)
    conf = parts.config(ctx, "nova.conf", wired, defaults=config.DEFAULTS, suffix=f"{name}-config")
    needed = (*shared.needed, bus, *setup)
    conductor = parts.worker(
        ctx,
        "conductor",
        conf,
        settings=wanted.conductor,
        after=needed,
        ready=bus.connected,
        name=f"{name}-conductor",
        stable=True,
        # Its nodes wait for it before they start their guests again.
        more=parts.More(cpu="100m"),
    )
    tokens, calls = consoles.accounts(ctx, name, creds, db, bus, setup[-1])
    limited = consoles.conf(ctx, name, tokens, calls, shown)
    console, proxy, url = _console(ctx, component, limited, tls, screens, after=(*needed, tokens, calls))
    steps = (db, bus, *setup, conf, conductor, tokens, calls, limited, console, proxy)
    return Built(
        name=name,
        database=db,
        shares=wanted.shares,
        steps=steps,
        messaging=bus,
        mapped=tuple(setup),
        conductor=conductor,
        console=url,
    )


def _messaging(ctx: Context[NovaSpec], wanted: Cell, creds: parts.Credentials) -> parts.Messaging:
    """A cell's virtual host, which is never the one above the cells: the conductors of both listen to the same queue.
    That of a Secret of its own is as the Secret says.
    """
    password, source = f"{wanted.name}-messaging", wanted.messaging or ctx.spec.messaging
    if not (wanted.messaging and source.secret_ref):
        return parts.messaging(ctx, creds, password, source=source, name=wanted.name)
    path = f"spec.cells[{ctx.spec.cells.index(wanted)}].messaging"
    return parts.messaging(ctx, creds, password, source=source, path=path)


CONSOLE = 6080


def _console(
    ctx: Context[NovaSpec],
    component: str,
    conf: parts.Config,
    tls: parts.Front,
    screens: Consoles,
    *,
    after: tuple[Step, ...],
) -> tuple[Step, Step, str]:
    """The address of a cell's proxy, made at once, since compute nodes hand its URL out; the proxy; and that URL."""
    service, expose = ctx.name(component), ctx.spec.expose
    proxy = parts.worker(
        ctx,
        "novncproxy",
        conf,
        settings=ctx.spec.novncproxy,
        after=(*after, *tls.certificate.pending, *screens.steps),
        mounts=screens.proxy,
        ready=kube.Probe(http=("/vnc_lite.html", CONSOLE), tls=bool(tls)),
        name=component,
        # It does not end when asked to; viewers reconnect either way.
        grace=3,
        more=parts.More(env={"OS_VNC__NOVNCPROXY_HOST": tls.listens} if tls else {}, containers=tls.containers),
    )
    wanted = kube.service(
        ctx, service, {"http": CONSOLE}, kube.selector(ctx, component), type_=parts.service_type(expose)
    )
    url = parts.public_url(ctx, component, CONSOLE, expose, tls.scheme)
    own = (*tls.certificate.steps, *parts.public_endpoint(ctx, component, CONSOLE, expose, tls.certificate))
    ways = parts.opened(ctx, parts.outside(component, CONSOLE, expose))
    return (
        Step(name="Console", objects=(wanted, *ways, *tls.watched)),
        replace(proxy, name="NoVNCProxy", own=own),
        url or f"{tls.scheme}://{ctx.host(service)}:{CONSOLE}",
    )


def status(ctx: Context[NovaSpec], built: Built) -> dict[str, Any]:
    """An entry of `status.cells`."""
    there = [ctx.children.get(key(obj)) for step in built.steps for obj in step.objects]
    ready = all(live is not None and kube.judge(live).ready for live in there)
    nodes = ctx.children.get(("DaemonSet", kube.fitting(ctx.name(built.name, "compute"))), {})
    return {
        "name": built.name,
        "status": "Ready" if ready else "Progressing",
        "computeNodes": (nodes.get("status") or {}).get("numberReady", 0),
    }


def apart(cells: list[Built], *above: parts.Database) -> list[Built]:
    """The cells. Raises SpecError where two schemas, of them and `above` them, are one."""
    taken: set[tuple[str, str]] = set()
    for database in (*above, *(cell.database for cell in cells)):
        at = urlsplit(database.url)
        server, schema = database.server or at.netloc.rpartition("@")[2], at.path.removeprefix("/")
        if (server, schema) in taken:
            raise SpecError("spec.database", f"schema {schema!r} has two uses in {server}; name one otherwise")
        taken.add((server, schema))
    return cells


def schema_name(ctx: Context[NovaSpec], part: str) -> str:
    """SQL name of one of Nova's schemas: nova_api, nova_cell0, nova_cell1. In a database of others `nova` itself is the
    first cell's, as it is called everywhere.
    """
    source = ctx.spec.database
    if name := {"api": source.api_database, "cell0": source.cell_database}.get(part):
        return name
    whole = parts.schema_of(ctx, source, ctx.owner)
    first = source.secret_ref and part == ctx.spec.cells[0].name
    return parts.sql_name(whole if first else f"{whole}_{part}")


COMPUTE_PASSWORD = "compute-identity"  # noqa: S105


def passwords(spec: NovaSpec) -> list[str]:
    """Names of the passwords of all accounts, users and virtual hosts that are made here."""
    found = [] if spec.database.secret_ref else ["api-database", "cell0-database"]
    found += parts.drawn(spec)
    if spec.compute.enabled and not spec.keystone.auth_url:
        found.append(COMPUTE_PASSWORD)
    for cell in spec.cells:
        sources = {"database": cell.database or spec.database, "messaging": cell.messaging or spec.messaging}
        made = [sort for sort, source in sources.items() if not source.secret_ref]
        found += [f"{part}-{sort}" for sort in made for part in (cell.name, f"{cell.name}--console")]
    return found
