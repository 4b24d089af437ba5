"""Designate: a schema, an API, its programs, the pools of servers, and the servers themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ... import agents, kube, parts
from ...api import ComponentSettings
from ...parts.connect.broker_move import with_moves
from ...parts.connect.coordinates import check_migration_reads
from ...plan import HOSTS, Context, MissingReference, Object, Plan, SpecError, Step
from . import bind9, config, external, pdns, retirement, servers
from .config import ServerPool, Tsig
from .model import DesignateSpec

_SERVICE_TYPE = "dns"
_ONE_REPLICA = ComponentSettings(replicas=1)
_ONE_POD = parts.ProgramSettings(alone=True, turn=HOSTS)
_KINDS = {"bind9": bind9.keys, "pdns4": pdns.keys, "external": external.keys}
"""Names of keys to draw, by backend."""
_API = parts.ProgramSettings(workers=parts.Workers(processes=2, threads=1))


@with_moves
def plan(ctx: Context[DesignateSpec]) -> Plan:
    """Return everything that a Designate consists of; published: internalURL, publicURL."""
    pools = config.server_pools(ctx.spec)
    retirement.check_removed(ctx, pools)
    for pool in pools:
        external.check(pool)
    passwords = (name for pool in pools if pool.spec.backend == "pdns4" for name in pdns.passwords(ctx.spec, pool))
    base = parts.foundation(ctx, *passwords, section=config.DATABASE, service_type=_SERVICE_TYPE)
    check_migration_reads(ctx)
    keys = parts.credentials(ctx, *(name for pool in pools for name in _KINDS[pool.spec.backend](pool)), suffix="keys")
    options = config.options(ctx, base)
    conf = parts.config(
        ctx, config.FILE, options, defaults=config.defaults(ctx.spec), extra_files=parts.policy_files(ctx)
    )
    sync = parts.schema(ctx, ["designate-manage", "database", "sync"], conf, after=base.schema)
    after_schema = (*base.steps, sync)
    central = parts.worker(
        ctx, "central", conf, settings=_ONE_REPLICA, after=after_schema, ready=base.connected, program=_ONE_POD
    )
    addresses = servers.addresses(ctx, {pool.name: _services(ctx, pool) for pool in pools})
    tsigs = _tsigs(ctx, pools, keys)
    backends = [(pool, _backend(ctx, pool, base, keys, tsigs[pool.name], addresses)) for pool in pools]
    trust, trust_steps = _trust(ctx, backends)
    before_commands = (*chain.from_iterable(backend.prerequisites for _, backend in backends), *trust_steps)
    files = _files(ctx, tsigs, addresses, backends)
    pools_job = files.job(ctx, conf, "pools", after=(central, addresses.step))
    after_pools = (*after_schema, pools_job)
    mdns = servers.mdns(ctx, options, after_pools)
    producer = parts.worker(
        ctx, "producer", conf, settings=_ONE_REPLICA, after=after_pools, ready=base.connected, program=_ONE_POD
    )
    worker = parts.worker(
        ctx,
        "worker",
        conf,
        settings=ctx.spec.worker.settings,
        after=(*after_pools, *before_commands),
        ready=base.connected,
        # A worker reads the pools once.
        program=replace(
            trust,
            mounts=(*trust.mounts, *_mounts(backends)),
            env={**trust.env, **_env(backends), **files.digest},
            copied=True,
        ),
    )
    zones_job = files.job(ctx, conf, "zones", trust.mounts, after=(pools_job, *before_commands, worker))
    api = parts.api(ctx, "api", config.API_PORT, conf, settings=ctx.spec.api, after=after_pools, program=_API)
    return Plan(
        *parts.policies(ctx),
        *base.steps,
        keys,
        conf,
        sync,
        central,
        addresses.step,
        *chain.from_iterable(backend.steps for _, backend in backends),
        *trust_steps,
        servers.resolvers(ctx, backends),
        files.file,
        pools_job,
        *mdns,
        worker,
        producer,
        zones_job,
        *_retired_pools(ctx, conf, files, pools_job),
        api,
        parts.catalog(ctx, _SERVICE_TYPE, "DNS", api, after=(*base.steps, api)),
        endpoint=api.public,
        published={**base.credentials.published, **api.published},
        preflight=parts.preflight(ctx, conf),
    )


_Backends = Sequence[tuple[ServerPool, servers.Backend]]


def _services(ctx: Context[DesignateSpec], pool: ServerPool) -> Sequence[Object]:
    kinds = {"bind9": bind9, "pdns4": pdns}
    return kinds[pool.spec.backend].services(ctx, pool) if pool.spec.backend in kinds else ()


def _backend(
    ctx: Context[DesignateSpec],
    pool: ServerPool,
    base: parts.Foundation,
    keys: parts.Credentials,
    tsig: Tsig,
    addresses: servers.Addresses,
) -> servers.Backend:
    if pool.spec.backend == "external":
        return external.backend(ctx, pool, tsig, addresses)
    if pool.spec.backend == "pdns4":
        return pdns.backend(ctx, pool, base, keys, tsig, addresses)
    return bind9.backend(ctx, pool, keys, tsig, addresses)


def _tsigs(ctx: Context[DesignateSpec], pools: Sequence[ServerPool], keys: parts.Credentials) -> Mapping[str, Tsig]:
    """Return the key of transfers of each pool. Raise SpecError if two have the same name."""
    tsigs = {pool.name: external.tsig(ctx, pool, keys) for pool in pools}
    for name in external.duplicates(tsigs):
        path = next(pool.path for pool in pools if pool.name == name)
        text = (
            f"another pool uses the key name {tsigs[name].name!r}, which identifies pools to mini DNS; choose "
            f"another name"
        )
        raise SpecError(f"{path}.external.tsigKey.name", text)
    return tsigs


def _mounts(backends: _Backends) -> Sequence[kube.Mount]:
    return [*chain.from_iterable(backend.mounts for _, backend in backends)]


def _env(backends: _Backends) -> Mapping[str, str]:
    return {name: value for _, backend in backends for name, value in backend.env.items()}


def _trust(ctx: Context[DesignateSpec], backends: _Backends) -> tuple[parts.ProgramSettings, tuple[Step, ...]]:
    """Return the mounts and the environment with which programs verify the APIs of PowerDNS, and the Secret of all
    authorities, if there are several. Designate's driver gives its authorities to the request that creates a zone only.
    """
    folders = {folder: secret for _, backend in backends for folder, secret in backend.authorities.items()}
    mounts = [
        kube.folder(f"{folder.removeprefix(pdns.TRUST)}-trust", secret, folder, files={"ca.crt": "ca.crt"})
        for folder, secret in folders.items()
    ]
    if len({*folders.values()}) < 2:
        env = {"REQUESTS_CA_BUNDLE": f"{next(iter(folders))}/ca.crt"} if folders else {}
        return parts.ProgramSettings(mounts=mounts, env=env), ()
    texts = [_authority(ctx, name) for name in dict.fromkeys(folders.values())]
    file = parts.written(ctx, {"ca.crt": "\n".join(texts)}, suffix="apis-trust", directory=f"{pdns.TRUST}apis")
    mounts.append(kube.folder("apis-trust", file.secret, file.directory, files={"ca.crt": "ca.crt"}))
    return parts.ProgramSettings(mounts=mounts, env={"REQUESTS_CA_BUNDLE": f"{file.directory}/ca.crt"}), (file,)


def _authority(ctx: Context[DesignateSpec], name: str) -> str:
    data = ctx.secrets.get(name) or kube.secret_data(ctx.children.get(("Secret", name)))
    if "ca.crt" not in data:
        raise MissingReference("spec.tls", f"Secret {name!r} has no key 'ca.crt'")
    return data["ca.crt"].strip() + "\n"


@dataclass(frozen=True, kw_only=True)
class _Files:
    """Files of the pools and of the keys of transfers, and the jobs that read them."""

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
        condition: str = "",
    ) -> Step:
        """Return the job `<owner>-<name>`, which brings central the pools (`pools`), brings servers their zones
        (`zones`) or removes retired pools (`retired`), again whenever the files change.
        """
        command = ["python3", "-c", agents.text("designate/pools.py"), name]
        program = parts.ProgramSettings(
            release_component="central",
            mounts=(*kube.files("pools", self.file.secret, config.FOLDER, *self.file.files), *mounts),
            env={"POOLS_FOLDER": config.FOLDER, **self.digest},
        )
        return parts.job(ctx, name, command, conf, after=(self.file, *after), condition=condition, program=program)


def _retired_pools(ctx: Context[DesignateSpec], conf: parts.Config, files: _Files, pools_job: Step) -> Sequence[Step]:
    """Return the job that removes pools which the spec no longer has; none as long as it names no pools."""
    if not ctx.spec.pools:
        return ()
    return (files.job(ctx, conf, "retired", after=(pools_job,), condition="RetiredPools"),)


def _files(
    ctx: Context[DesignateSpec], tsigs: Mapping[str, Tsig], addresses: servers.Addresses, backends: _Backends
) -> _Files:
    entries = [
        config.pool_entry(pool, backend.servers, backend.targets, _dns_name(ctx, pool)) for pool, backend in backends
    ]
    signatures = [tsigs[pool.name].entry(pool.id) for pool, _ in backends]
    # JSON is YAML.
    data = {retirement.FILE: json.dumps(entries, indent=1) + "\n", "tsig.json": json.dumps(signatures)}
    if not addresses.are_complete:
        # A job that still runs must not write a pool without servers.
        stored = kube.secret_data(ctx.children.get(("Secret", kube.fitting(ctx.name("pools")))))
        data = {name: stored.get(name, text) for name, text in data.items()}
    file = parts.written(ctx, data, suffix="pools", directory=config.FOLDER)
    # Not the digest of the file, which is another one with other authorities.
    return _Files(file=file, digest={retirement.DIGEST: retirement.digest(data)})


def _dns_name(ctx: Context[DesignateSpec], pool: ServerPool) -> str:
    return ctx.host(kube.fitting(ctx.name(pool.prefixed(servers.DNS))))
