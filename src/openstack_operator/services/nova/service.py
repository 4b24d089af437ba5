"""Nova: two schemas above the cells, APIs, a scheduler and a conductor; then cells, and the compute nodes in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from urllib.parse import urlsplit

from ... import oslo, parts
from ...api import Scalable, Sections
from ...parts.connect import sources
from ...parts.connect.broker_move import with_moves
from ...parts.connect.key_manager import key_manager_steps
from ...parts.connect.sources import database, messaging
from ...plan import UPGRADE, Context, Group, Plan, Step
from . import config, external, jobs
from .cells import CellInputs, CellPlan, check_schemas_distinct, passwords, plan_cell, schema_name, status
from .compute import ingress_rules, node_network_refs, node_user, plan_compute
from .compute_rollout import CONDITION, await_way_back, plan_rollout
from .consoles import plan_consoles
from .migration import plan_migration
from .model import NovaSpec
from .remote_cells import hypervisor_secrets, metadata_access

# One thread each: with eventlet, a second one never stops waiting for answers to its RPC.
_WORKERS = parts.Workers(processes=8, threads=1, cpu="20m")
_API = parts.ProgramSettings(memory="192Mi", workers=_WORKERS)
_PODS = parts.ProgramSettings(stable=True, copied=True)
# None of its requests waits for a node, as those of the API do. Where Neutron is slow, another process is two more
# tokens for Keystone to make and Neutron to look at; and guests ask again anyway.
_METADATA = parts.ProgramSettings(exposed=False, workers=replace(_WORKERS, processes=2))


@with_moves
def plan(ctx: Context[NovaSpec]) -> Plan:
    """Plan everything of a Nova; published: internalURL, publicURL, metadataProtocol (http or https)."""
    spec = ctx.spec
    creds = parts.credentials(ctx, *passwords(spec), rotates=True)
    # cell0 only records servers that found no node; nothing runs in it.
    api_db, cell0 = (
        database(ctx, creds, f"{each}-database", schema_name(ctx, each), source=spec.database, name=f"{each}-db")
        for each in ("api", "cell0")
    )
    bus = messaging(ctx, creds, "messaging", source=spec.messaging)
    notifications = sources.notifications(ctx, creds, broker=spec.messaging.notifications_ref)
    user = sources.identity(ctx, creds, "identity")
    apis = (("Placement", spec.placement_ref), ("Glance", spec.glance_ref), ("Neutron", spec.neutron_ref))
    peers = (*(sources.requires(ctx, name, ref) for name, ref in apis), *key_manager_steps(ctx))
    servers = oslo.merge(config.api_database(api_db.url), config.database(cell0.url), bus.options(notifications))
    fixed_options = oslo.merge(servers, config.clients(ctx, user), config.control(ctx, user, creds))
    conf, remark = _config(ctx, fixed_options)
    scheduler_conf = external.scheduler(ctx, conf, fixed_options, remark, user)
    sync = jobs.schema(ctx, conf, after=(api_db, cell0))
    waits = sources.waits(ctx)
    dependencies = (*(() if notifications is None else (notifications,)), user, *waits)
    consoles = plan_consoles(ctx)
    newer_nodes = await_way_back(ctx)
    inputs = CellInputs(
        credentials=creds,
        identity=user,
        notifications=notifications,
        config=conf,
        schema=sync,
        dependencies=dependencies,
        peers=peers,
        newer_nodes=newer_nodes,
        consoles=consoles,
    )
    cells = check_schemas_distinct([plan_cell(ctx, each, inputs) for each in spec.cells], api_db, cell0)
    after_schema = (*dependencies, *newer_nodes, bus, sync)
    after_cells = (*after_schema, *chain.from_iterable(each.mapping for each in cells))
    conductor = _worker(ctx, "conductor", conf, spec.conductor, bus, after=after_schema)
    scheduler = _worker(ctx, "scheduler", scheduler_conf, spec.scheduler, bus, after=after_cells)
    api = parts.api(ctx, "api", 8774, conf, settings=spec.api, health="/", after=after_cells, program=_API)
    metadata = _metadata_api(ctx, conf, after=after_cells)
    entry = parts.catalog(ctx, config.SERVICE_TYPE, "Compute", api, path="/v2.1", after=(*peers, user, api))
    migration = plan_migration(ctx)
    node_login = node_user(ctx, creds) if spec.has_nodes else None
    compute = plan_compute(ctx, cells, inputs, node_login, migration)
    # nova-compute works with conductors of its own release and of later ones, and needs their schema.
    controllers = (conductor, *(each.conductor for each in cells), scheduler, api, metadata)
    rollout = plan_rollout(ctx, compute.steps, after=() if newer_nodes else controllers)
    replacements = [each.replacement for each in (migration.authority, consoles.authority) if each]
    return Plan(
        *parts.policies(ctx, *ingress_rules(ctx), on_nodes=node_network_refs(spec)),
        creds,
        api_db,
        cell0,
        bus,
        *((notifications,) if notifications else ()),
        user,
        *peers,
        *waits,
        Group(CONDITION, newer_nodes),
        conf,
        scheduler_conf,
        sync,
        conductor,
        Group("Cells", [*consoles.steps, *chain.from_iterable(each.steps for each in cells)]),
        compute,
        *hypervisor_secrets(ctx, cells, inputs, node_login, metadata),
        scheduler,
        api,
        metadata,
        entry,
        *rollout.groups,
        _completion(ctx, conf, cells, compute, conductor, scheduler, api, metadata, *rollout.steps),
        *([Group("Authorities", replacements)] if replacements else ()),
        endpoint=f"{api.public}/v2.1",
        published={**creds.published, **api.published, "metadataProtocol": urlsplit(metadata.internal).scheme},
        wake=migration.wake,
        details={"cells": [status(ctx, each) for each in cells], **rollout.details},
        preflight=parts.preflight(ctx, conf, with_records=True),
    )


def _config(ctx: Context[NovaSpec], fixed_options: Sections) -> tuple[parts.Config, str]:
    """Return the options of the processes above the cells, and the remark in that file which names the cells."""
    # The map of cells is read once, when a process starts (nova.context.load_cells): another cell, other pods.
    remark = f"# Cells: {', '.join(each.name for each in ctx.spec.cells)}\n"
    rendered = oslo.render(parts.options(ctx, fixed_options, defaults=config.DEFAULTS))
    files = {"nova.conf": rendered + remark, **parts.policy_files(ctx, config.POLICIES)}
    return parts.written(ctx, files, directory="/etc/nova"), remark


def _worker(
    ctx: Context[NovaSpec],
    name: str,
    conf: parts.Config,
    settings: Scalable,
    bus: sources.Messaging,
    *,
    after: Sequence[Step],
) -> Step:
    return parts.worker(ctx, name, conf, settings=settings, after=after, ready=bus.connected, program=_PODS)


def _completion(
    ctx: Context[NovaSpec], conf: parts.Config, cells: Sequence[CellPlan], compute: Group, *programs: Step
) -> Group:
    """Plan the last step of an upgrade, after these programs and those of compute nodes; empty without an upgrade."""
    files = {each.name: each.files for each in cells}
    nodes = (each for each in compute.steps if isinstance(each, Step))
    return Group(UPGRADE, jobs.completion(ctx, conf, files, after=(*programs, *nodes)))


def _metadata_api(ctx: Context[NovaSpec], conf: parts.Config, *, after: Sequence[Step]) -> parts.Api:
    program = metadata_access(ctx, _METADATA)
    return parts.api(ctx, "metadata", 8775, conf, settings=ctx.spec.metadata, health="/", after=after, program=program)
