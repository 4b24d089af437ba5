"""A cell: its schema, its broker, its place in the map of cells, its conductor and the proxy to its consoles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from ... import kube, oslo, parts
from ...parts.connect import sources
from ...parts.connect.coordinates import schema_of
from ...parts.expose import exposure
from ...parts.expose.front import Clients, Front, front
from ...parts.expose.policies import api_ingress, ingress_policies
from ...plan import Context, SpecError, Step, key
from . import config, groups, jobs
from .consoles import Consoles, console_accounts, console_conf
from .model import Cell, NovaSpec


@dataclass(frozen=True, kw_only=True)
class CellInputs:
    """Values that the plans of all cells share."""

    credentials: parts.Credentials
    identity: sources.Identity
    notifications: sources.Messaging | None
    config: parts.Config
    """Options of the processes above the cells."""
    schema: Step
    """The schema that holds the map of cells."""
    dependencies: tuple[Step, ...]
    """Steps that must be ready before any pod of Nova starts."""
    peers: tuple[Step, ...]
    """Services that Nova calls as it makes a server: they must be ready before nodes take servers."""
    newer_nodes: tuple[Step, ...]
    """Step that holds back the control plane while nodes run a later release; empty if none does."""
    consoles: Consoles


@dataclass(frozen=True, kw_only=True)
class CellNodes:
    """Values of a cell that its compute nodes need."""

    name: str
    shares: Sequence[str]
    """Values of the label `openstack-cell` on its nodes."""
    messaging: sources.Messaging
    console: str
    """URL of the proxy to the cell's consoles."""
    after: tuple[Step, ...] = ()
    """Its conductor, if that runs beside the nodes: nova-compute waits ten seconds for one that does not listen yet."""


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """A cell's steps, and the values that its compute nodes need."""

    nodes: CellNodes
    database: sources.Database
    steps: tuple[Step, ...]
    mapping: tuple[Step, ...]
    """Steps that put it into the map of cells, which API and scheduler read once, when they start."""
    files: parts.Config
    """Secret with the connection of its schema."""
    conductor: Step

    @property
    def name(self) -> str:
        """Return the name of the cell."""
        return self.nodes.name


def plan_cell(ctx: Context[NovaSpec], cell: Cell, inputs: CellInputs) -> CellPlan:
    """Plan one cell, without its compute nodes."""
    name, creds = cell.name, inputs.credentials
    source, path = ctx.spec.database, "spec.database"
    schema = schema_name(ctx, name)
    if cell.database:
        source, path = cell.database, f"spec.cells[{ctx.spec.cells.index(cell)}].database"
        schema = schema_of(ctx, source, schema, path=path)
    db = sources.database(ctx, creds, f"{name}-database", schema, source=source, name=f"{name}-db", path=path)
    bus = _messaging(ctx, cell, creds)
    options = oslo.merge(config.database(db.url), bus.options(inputs.notifications))
    setup = jobs.cell(ctx, name, inputs.config, db.url, bus.url, after=(db, inputs.schema))
    consoles, component = inputs.consoles, f"{name}-novncproxy"
    expose, entry = ctx.spec.expose, parts.release_entry(ctx, "novncproxy")
    host, proxied = exposure.public_host(ctx, ctx.name(component), expose), exposure.through_proxy(expose)
    clients = Clients(host=host, proxied=proxied, tunnels=True)
    tls = front(ctx, component, CONSOLE, entry, clients=clients)
    console_tls = consoles.options(required=tls.certificate.required)
    # The last two are for the proxy, which has a file of its own. They stay: a changed file replaces the conductor.
    console = config.novncproxy(ctx.any_address)
    fixed_options = oslo.merge(options, config.clients(ctx, inputs.identity), console, console_tls)
    conf = parts.config(ctx, "nova.conf", fixed_options, defaults=config.DEFAULTS, suffix=f"{name}-config")
    after = (*inputs.dependencies, *inputs.newer_nodes, bus, *setup)
    conductor = parts.worker(
        ctx,
        "conductor",
        conf,
        settings=cell.conductor,
        after=after,
        ready=bus.connected,
        name=f"{name}-conductor",
        # Its nodes wait for it before they start their guests again.
        program=parts.ProgramSettings(stable=True, copied=True, cpu="100m"),
    )
    reader, caller = console_accounts(ctx, name, creds, db, bus, setup[-1])
    proxy_conf = console_conf(ctx, name, reader, caller, console_tls)
    console, proxy, url = _console(ctx, component, proxy_conf, tls, consoles, after=(*after, reader, caller))
    steps = (db, bus, *setup, conf, conductor, reader, caller, proxy_conf, console, proxy)
    nodes = CellNodes(name=name, shares=cell.shares, messaging=bus, console=url, after=(conductor,))
    return CellPlan(nodes=nodes, database=db, steps=steps, mapping=tuple(setup), files=setup[0], conductor=conductor)


def _messaging(ctx: Context[NovaSpec], cell: Cell, creds: parts.Credentials) -> sources.Messaging:
    """Return a cell's virtual host, which is never the one above the cells: the conductors of both listen to the same
    queue. If the cell has a Secret of its own, the Secret names the virtual host.
    """
    password, source = f"{cell.name}-messaging", cell.messaging or ctx.spec.messaging
    if not (cell.messaging and source.secret_ref):
        return sources.messaging(ctx, creds, password, source=source, name=cell.name)
    path = f"spec.cells[{ctx.spec.cells.index(cell)}].messaging"
    return sources.messaging(ctx, creds, password, source=source, path=path)


CONSOLE = 6080


def _console(
    ctx: Context[NovaSpec],
    component: str,
    conf: parts.Config,
    tls: Front,
    consoles: Consoles,
    *,
    after: tuple[Step, ...],
) -> tuple[Step, Step, str]:
    """Return the address of a cell's proxy, made at once as compute nodes hand out its URL; the proxy; and that URL."""
    service, expose = ctx.name(component), ctx.spec.expose
    proxy = parts.worker(
        ctx,
        "novncproxy",
        conf,
        settings=ctx.spec.novncproxy,
        after=(*after, *tls.certificate.pending, *consoles.steps),
        ready=kube.Probe(http=("/vnc_lite.html", CONSOLE), tls=bool(tls)),
        name=component,
        program=parts.ProgramSettings(
            mounts=consoles.proxy,
            # It does not end on request; viewers reconnect either way.
            grace=3,
            env={"OS_VNC__NOVNCPROXY_HOST": tls.listens} if tls else {},
            containers=tls.containers,
        ),
    )
    address = exposure.api_service(ctx, service, {"http": CONSOLE}, kube.selector(ctx, component), expose)
    url = exposure.public_url(ctx, component, CONSOLE, expose, tls.scheme)
    substeps = (*tls.certificate.steps, *exposure.public_endpoint(ctx, component, CONSOLE, expose, tls.certificate))
    policies = ingress_policies(ctx, api_ingress(component, CONSOLE, expose))
    return (
        Step(name="Console", objects=(address, *policies, *tls.watched)),
        replace(proxy, name="NoVNCProxy", substeps=substeps),
        url or f"{tls.scheme}://{ctx.host(service)}:{CONSOLE}",
    )


def status(ctx: Context[NovaSpec], cell: CellPlan) -> dict[str, Any]:
    """Return the cell's entry in `status.cells`."""
    children = [ctx.children.get(key(obj)) for step in cell.steps for obj in step.objects]
    ready = all(live is not None and kube.judge(live).ready for live in children)
    return {
        "name": cell.name,
        "status": "Ready" if ready else "Progressing",
        "computeNodes": groups.ready_nodes(ctx, cell.name),
    }


def check_schemas_distinct(cells: list[CellPlan], *above: sources.Database) -> list[CellPlan]:
    """Return the cells. Raises SpecError where two schemas, of the cells and `above` them, are the same."""
    schemas: set[tuple[str, str]] = set()
    for database in (*above, *(cell.database for cell in cells)):
        url = urlsplit(database.url)
        server, schema = database.server or url.netloc.rpartition("@")[2], url.path.removeprefix("/")
        if (server, schema) in schemas:
            raise SpecError("spec.database", f"schema {schema!r} is used twice in {server}; choose another name")
        schemas.add((server, schema))
    return cells


def schema_name(ctx: Context[NovaSpec], part: str) -> str:
    """Return the SQL name of one of Nova's schemas: nova_api, nova_cell0, nova_cell1. On an external server, `nova`
    alone is the first cell's, as in most clouds.
    """
    source = ctx.spec.database
    if name := {"api": source.api_database, "cell0": source.cell_database}.get(part):
        return name
    prefix = schema_of(ctx, source, ctx.owner)
    is_prefix_alone = source.secret_ref and part == ctx.spec.cells[0].name
    return sources.sql_name(prefix if is_prefix_alone else f"{prefix}_{part}")


COMPUTE_PASSWORD = "compute-identity"  # noqa: S105


def passwords(spec: NovaSpec) -> list[str]:
    """Return the names of the passwords of all accounts, users and virtual hosts that the operator makes."""
    names = [] if spec.database.secret_ref else ["api-database", "cell0-database"]
    names += sources.password_names(spec)
    if spec.has_nodes and not spec.keystone.auth_url:
        names.append(COMPUTE_PASSWORD)
    for cell in spec.cells:
        servers = {"database": cell.database or spec.database, "messaging": cell.messaging or spec.messaging}
        kinds = [kind for kind, server in servers.items() if not server.secret_ref]
        names += [f"{part}-{kind}" for kind in kinds for part in (cell.name, f"{cell.name}--console")]
        if cell.has_remote_nodes and "messaging" in kinds:
            names.append(f"{cell.name}--elsewhere-messaging")
    return names
