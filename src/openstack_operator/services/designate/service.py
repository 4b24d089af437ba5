"""Designate: a schema, an API, its programs, the pool of servers, and the servers themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ... import agents, kube, parts
from ...api import Component
from ...plan import Context, Plan, Step
from . import bind9, config, pdns, servers
from .model import DesignateSpec

_ALONE = Component(replicas=1)
_API = parts.Program(workers=parts.Workers(processes=2, threads=1))


def plan(ctx: Context[DesignateSpec]) -> Plan:
    """Return everything that a Designate consists of; published: internalURL, publicURL."""
    is_pdns = ctx.spec.backend == "pdns4"
    kind = pdns if is_pdns else bind9
    base = parts.foundation(ctx, *(pdns.passwords(ctx.spec) if is_pdns else ()), section=config.DATABASE)
    keys = parts.credentials(ctx, *kind.KEYS, suffix="keys")
    options = config.options(ctx, base)
    conf = parts.config(ctx, config.FILE, options, defaults=config.DEFAULTS)
    sync = parts.job(
        ctx, "db-sync", ["designate-manage", "database", "sync"], conf, after=base.schema, condition="Schema"
    )
    after = (*base.steps, sync)
    alone = parts.Program(alone=True)
    central = parts.worker(ctx, "central", conf, settings=_ALONE, after=after, ready=base.connected, program=alone)
    addresses = servers.addresses(ctx, kind.services(ctx))
    backend = kind.backend(ctx, base, keys, addresses)
    pool = _pool(ctx, keys, addresses, backend)
    pools = pool.job(ctx, conf, "pools", after=(central, addresses.step))
    ready = (*after, pools)
    mdns = servers.mdns(ctx, options, ready)
    producer = parts.worker(ctx, "producer", conf, settings=_ALONE, after=ready, ready=base.connected, program=alone)
    worker = parts.worker(
        ctx,
        "worker",
        conf,
        settings=ctx.spec.worker.component,
        after=(*ready, *backend.needs),
        ready=base.connected,
        # A worker reads the pool once.
        program=parts.Program(mounts=(*backend.trust, *backend.mounts), env={**backend.env, **pool.digest}),
    )
    zones = pool.job(ctx, conf, "zones", backend.trust, after=(pools, *backend.needs, worker))
    api = parts.api(ctx, "api", config.API_PORT, conf, settings=ctx.spec.api, after=ready, program=_API)
    entry = parts.catalog(ctx, "dns", "DNS", api, after=(*base.steps, api))
    resolvers = servers.resolvers(ctx, backend)
    steps = (addresses.step, *backend.steps, resolvers, pool.file, pools, *mdns, worker, producer, zones, api, entry)
    return Plan(
        *parts.policies(ctx),
        *base.steps,
        keys,
        conf,
        sync,
        central,
        *steps,
        endpoint=api.public,
        published={**base.credentials.published, **api.published},
    )


@dataclass(frozen=True, kw_only=True)
class _Pool:
    """Files of the pool and of the key of transfers, and the jobs that read them."""

    file: parts.Config
    digest: Mapping[str, str]
    """Environment that differs with the files."""

    def job(
        self,
        ctx: Context[DesignateSpec],
        conf: parts.Config,
        name: str,
        mounts: Sequence[kube.Mount] = (),
        *,
        after: Sequence[Step],
    ) -> Step:
        """Return the job `<owner>-<name>`, which brings central the pool (`pools`) or servers their zones (`zones`),
        again whenever the files change.
        """
        command = ["python3", "-c", agents.text("designate/pools.py"), name]
        program = parts.Program(
            release_component="central",
            mounts=(*kube.files("pools", self.file.secret, config.FOLDER, *self.file.files), *mounts),
            env={"POOLS_FOLDER": config.FOLDER, **self.digest},
        )
        return parts.job(ctx, name, command, conf, after=(self.file, *after), program=program)


def _pool(
    ctx: Context[DesignateSpec], keys: parts.Credentials, addresses: servers.Addresses, backend: servers.Backend
) -> _Pool:
    key = {
        "name": config.TRANSFER,
        "algorithm": config.ALGORITHM,
        "secret": config.secret(keys[config.TRANSFER]),
        "scope": "POOL",
        "resource_id": config.POOL,
    }
    dns = ctx.host(kube.fitting(ctx.name(servers.DNS)))
    data = {"pools.json": config.pools(ctx, addresses.servers, backend.targets, dns), "tsig.json": json.dumps(key)}
    if not addresses.are_complete:
        # A job that still runs must not write a pool without servers.
        stored = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("pools")))))
        data = {name: stored.get(name, text) for name, text in data.items()}
    file = parts.written(ctx, data, suffix="pools", directory=config.FOLDER)
    # Not the digest of the file, which is another one with other authorities.
    return _Pool(file=file, digest={"POOLS_DIGEST": kube.digest(json.dumps(data))})
