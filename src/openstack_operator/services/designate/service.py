"""Designate: a schema, an API, its programs, the pool of servers, and the servers themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ... import agents, kube, parts
from ...api import Component
from ...plan import Context, Plan, Step
from . import config, servers
from .model import DesignateSpec

_ALONE = Component(replicas=1)
_API = parts.Program(workers=parts.Workers(processes=2, threads=1))


def plan(ctx: Context[DesignateSpec]) -> Plan:
    """Return everything that a Designate consists of; published: internalURL, publicURL."""
    base = parts.foundation(ctx, section="storage:sqlalchemy")
    keys = parts.credentials(ctx, config.RNDC, config.TRANSFER, suffix="keys")
    conf = parts.config(ctx, "designate.conf", config.options(ctx, base), defaults=config.DEFAULTS)
    sync = parts.job(
        ctx, "db-sync", ["designate-manage", "database", "sync"], conf, after=base.schema, condition="Schema"
    )
    after = (*base.steps, sync)
    alone = parts.Program(alone=True)
    central = parts.worker(ctx, "central", conf, settings=_ALONE, after=after, ready=base.connected, program=alone)
    addresses = servers.addresses(ctx)
    bind9 = servers.bind9(ctx, keys)
    pools = _pools(ctx, keys, conf, addresses, after=(central, addresses.step))
    ready = (*after, *pools)
    mdns = servers.mdns(ctx, conf, ready)
    producer = parts.worker(ctx, "producer", conf, settings=_ALONE, after=ready, ready=base.connected, program=alone)
    worker = _worker(ctx, base, keys, conf, after=ready)
    api = parts.api(ctx, "api", config.API_PORT, conf, settings=ctx.spec.api, after=ready, program=_API)
    entry = parts.catalog(ctx, "dns", "DNS", api, after=(*base.steps, api))
    steps = (conf, sync, central, addresses.step, *bind9, *pools, mdns, *worker, producer, api, entry)
    return Plan(
        *parts.policies(ctx),
        *base.steps,
        keys,
        *steps,
        endpoint=api.public,
        published={**base.credentials.published, **api.published},
    )


def _pools(
    ctx: Context[DesignateSpec],
    keys: parts.Credentials,
    conf: parts.Config,
    addresses: servers.Addresses,
    *,
    after: Sequence[Step],
) -> tuple[Step, ...]:
    """Return the job that tells central of the pool and the key of transfers, again whenever either changes."""
    key = {
        "name": config.TRANSFER,
        "algorithm": config.ALGORITHM,
        "secret": config.secret(keys[config.TRANSFER]),
        "scope": "POOL",
        "resource_id": config.POOL,
    }
    dns = ctx.host(kube.fitting(ctx.name(servers.DNS)))
    data = {"pools.json": config.pools(ctx, addresses.servers, addresses.mdns, dns), "tsig.json": json.dumps(key)}
    if not addresses.are_complete:
        # A job that still runs must not write a pool without servers.
        data = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("pools"))))) or data
    file = parts.written(ctx, data, suffix="pools", directory=config.FOLDER)
    # The digest makes it another job, which has all servers transfer all zones again: not for another authority.
    env = {"POOLS_FOLDER": config.FOLDER, "POOLS_DIGEST": kube.digest(json.dumps(data))}
    program = parts.Program(
        release_component="central", mounts=kube.files("pools", file.secret, config.FOLDER, *file.files), env=env
    )
    command = ["python3", "-c", agents.text("designate/pools.py")]
    job = parts.job(ctx, "pools", command, conf, after=(file, *after), condition="Pools", program=program)
    return file, job


def _worker(
    ctx: Context[DesignateSpec],
    base: parts.Foundation,
    keys: parts.Credentials,
    conf: parts.Config,
    *,
    after: Sequence[Step],
) -> tuple[Step, ...]:
    """Return the worker, which alone has the key for commands to servers."""
    data = {config.RNDC_FILE: config.key_file(config.RNDC, keys[config.RNDC])}
    file = parts.written(ctx, data, suffix="rndc", directory=config.FOLDER)
    worker = parts.worker(
        ctx,
        "worker",
        conf,
        settings=ctx.spec.worker.component,
        after=(*after, file),
        ready=base.connected,
        # Pods restart with another key.
        program=parts.Program(
            mounts=kube.files("rndc", file.secret, config.FOLDER, *file.files), env={"RNDC_DIGEST": file.digest}
        ),
    )
    return file, worker
