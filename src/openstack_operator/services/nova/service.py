"""Nova: two schemas above the cells, APIs, a scheduler and a conductor; then cells, and the compute nodes in them."""

from __future__ import annotations

from itertools import chain
from urllib.parse import urlsplit

from ... import oslo, parts
from ...plan import Context, Group, Plan
from . import config, jobs
from .cells import Shared, cell, schema_name
from .compute import compute
from .migration import migration
from .model import NovaSpec


def plan(ctx: Context[NovaSpec]) -> Plan:
    """Everything a Nova is made of; published: internalURL, publicURL, metadataProtocol (http or https)."""
    spec = ctx.spec
    passwords = [f"{each.name}-{what}" for each in spec.cells for what in ("database", "messaging")]
    told = parts.notifying(spec)
    creds = parts.credentials(ctx, "api-database", "cell0-database", "messaging", "identity", *told, *passwords)
    server = spec.database.mariadb_ref
    api_db = parts.database(ctx, creds, "api-database", schema_name(ctx, "api"), server=server, name="api-db")
    # cell0 only records servers that found no node; nothing runs in it.
    cell0 = parts.database(ctx, creds, "cell0-database", schema_name(ctx, "cell0"), server=server, name="cell0-db")
    bus = parts.messaging(ctx, creds, "messaging", broker=spec.messaging.rabbitmq_ref)
    news = parts.notifications(ctx, creds, broker=spec.messaging.notifications_ref)
    user = parts.identity(ctx, creds, "identity")
    peers = [
        parts.requires(ctx, name, ref)
        for name, ref in (("Placement", spec.placement_ref), ("Glance", spec.glance_ref), ("Neutron", spec.neutron_ref))
    ]
    wired = oslo.merge(
        config.api_database(api_db.url),
        config.database(cell0.url),
        bus.options(news),
        config.clients(ctx, user),
        config.control(ctx, user),
    )
    # The map of cells is read once, when a process starts (nova.context.load_cells): another cell, other pods.
    remark = f"# Cells: {', '.join(each.name for each in spec.cells)}\n"
    rendered = oslo.render(parts.options(ctx, wired, defaults=config.DEFAULTS))
    conf = parts.written(ctx, {"nova.conf": rendered + remark}, directory="/etc/nova")
    sync = jobs.schema(ctx, conf, after=(api_db, cell0))
    needed = (user, *peers) if news is None else (news, user, *peers)
    shared = Shared(credentials=creds, identity=user, notifications=news, config=conf, schema=sync, needed=needed)
    cells = [cell(ctx, each, shared) for each in spec.cells]
    running = (*needed, bus, sync)
    knowing = (*running, *chain.from_iterable(each.mapped for each in cells))
    conductor, scheduler = (
        parts.worker(ctx, name, conf, settings=settings, after=after, ready=parts.CONNECTED_TO_BROKER, stable=True)
        for name, settings, after in (("conductor", spec.conductor, running), ("scheduler", spec.scheduler, knowing))
    )
    # One thread each: with eventlet, a second one waits for answers to its RPC for ever.
    workers = parts.Workers(processes=8, threads=1, cpu="20m")
    api = parts.api(
        ctx, "api", 8774, conf, settings=spec.api, health="/", after=knowing, memory="192Mi", workers=workers
    )
    metadata = parts.api(
        ctx, "metadata", 8775, conf, settings=spec.metadata, health="/", after=knowing, exposed=False, workers=workers
    )
    entry = parts.catalog(ctx, "compute", "Compute", api, path="/v2.1", after=(user, api))
    moving = migration(ctx)
    return Plan(
        creds,
        api_db,
        cell0,
        bus,
        *((news,) if news else ()),
        user,
        *peers,
        conf,
        sync,
        conductor,
        Group("Cells", list(chain.from_iterable(each.steps for each in cells))),
        compute(ctx, cells, shared, moving),
        scheduler,
        api,
        metadata,
        entry,
        endpoint=f"{api.public}/v2.1",
        published={**api.published, "metadataProtocol": urlsplit(metadata.internal).scheme},
        wake=moving.wake,
    )
