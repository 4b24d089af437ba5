"""Nova: two schemas above the cells, APIs, a scheduler and a conductor; then cells, and the compute nodes in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from urllib.parse import urlsplit

from ... import oslo, parts
from ...plan import Context, Group, Plan
from . import config, external, jobs
from .cells import Shared, apart, cell, passwords, schema_name, status
from .compute import compute, on_nodes, ways
from .consoles import consoles
from .migration import migration
from .model import NovaSpec

# One thread each: with eventlet, a second one waits for answers to its RPC for ever.
_API = parts.Workers(processes=8, threads=1, cpu="20m")
# None of its requests waits for a node, as those of the API do. Where Neutron is slow, another process is two more
# tokens for Keystone to make and Neutron to look at; and guests ask again anyway.
_METADATA = replace(_API, processes=2)


def plan(ctx: Context[NovaSpec]) -> Plan:
    """Everything a Nova is made of; published: internalURL, publicURL, metadataProtocol (http or https)."""
    spec = ctx.spec
    creds = parts.credentials(ctx, *passwords(spec), rotates=True)
    # cell0 only records servers that found no node; nothing runs in it.
    api_db, cell0 = (
        parts.database(ctx, creds, f"{each}-database", schema_name(ctx, each), source=spec.database, name=f"{each}-db")
        for each in ("api", "cell0")
    )
    bus = parts.messaging(ctx, creds, "messaging", source=spec.messaging)
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
        config.control(ctx, user, creds),
    )
    # The map of cells is read once, when a process starts (nova.context.load_cells): another cell, other pods.
    remark = f"# Cells: {', '.join(each.name for each in spec.cells)}\n"
    rendered = oslo.render(parts.options(ctx, wired, defaults=config.DEFAULTS))
    conf = parts.written(ctx, {"nova.conf": rendered + remark, **config.POLICY}, directory="/etc/nova")
    choosing = external.scheduler(ctx, conf, wired, remark, user)
    sync = jobs.schema(ctx, conf, after=(api_db, cell0))
    waits = parts.waits(ctx)
    needed = (*(() if news is None else (news,)), user, *peers, *waits)
    screens = consoles(ctx)
    shared = Shared(
        credentials=creds, identity=user, notifications=news, config=conf, schema=sync, needed=needed, consoles=screens
    )
    cells = apart([cell(ctx, each, shared) for each in spec.cells], api_db, cell0)
    running = (*needed, bus, sync)
    knowing = (*running, *chain.from_iterable(each.mapped for each in cells))
    conductor, scheduler = (
        parts.worker(ctx, name, read, settings=settings, after=after, ready=bus.connected, stable=True)
        for name, read, settings, after in (
            ("conductor", conf, spec.conductor, running),
            ("scheduler", choosing, spec.scheduler, knowing),
        )
    )
    api = parts.api(ctx, "api", 8774, conf, settings=spec.api, health="/", after=knowing, memory="192Mi", workers=_API)
    metadata = parts.api(
        ctx, "metadata", 8775, conf, settings=spec.metadata, health="/", after=knowing, exposed=False, workers=_METADATA
    )
    entry = parts.catalog(ctx, "compute", "Compute", api, path="/v2.1", after=(user, api))
    moving = migration(ctx)
    replacements = [by.replacement for by in (moving.authority, screens.authority) if by]
    return Plan(
        *parts.policies(ctx, *ways(ctx), on_nodes=on_nodes(spec)),
        creds,
        api_db,
        cell0,
        bus,
        *((news,) if news else ()),
        user,
        *peers,
        *waits,
        conf,
        choosing,
        sync,
        conductor,
        Group("Cells", [*screens.steps, *chain.from_iterable(each.steps for each in cells)]),
        compute(ctx, cells, shared, moving, screens),
        scheduler,
        api,
        metadata,
        entry,
        *([Group("Authorities", replacements)] if replacements else ()),
        endpoint=f"{api.public}/v2.1",
        published={**creds.published, **api.published, "metadataProtocol": urlsplit(metadata.internal).scheme},
        wake=moving.wake,
        details={"cells": [status(ctx, each) for each in cells]},
    )
