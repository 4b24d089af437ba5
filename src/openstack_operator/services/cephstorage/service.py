"""CephStorage: a Ceph, ours or an external one, with a pool for each use and a client that may work in it only."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ... import agents, kube, parts
from ...parts.connect.ceph import coordinates, keyring, login, logins
from ...plan import Context, MissingReference, Plan, SpecError, Step, waiting
from . import config, daemons, health, rook
from .health import PORT
from .model import USERS, CephStorageSpec, External, pools, users

FOLDER = "/etc/ceph-storage"
"""Folder of the program in a pod, and of what it reads."""


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Ceph that exists or starts, as far as its facts are known."""

    fsid: str
    monitors: Sequence[str]
    conf: str
    """ceph.conf of clients."""
    keys: Mapping[str, str]
    """Key of each use."""
    names: Mapping[str, str]
    """User of each use, without `client.`."""
    steps: tuple[Step, ...]
    daemons: tuple[Step, ...] = ()
    """Steps that must be ready before a client logs in."""
    admin: tuple[str, str] | None = None
    """(user, key) of the account that makes pools and clients; None if the operator does not make them."""


def plan(ctx: Context[CephStorageSpec]) -> Plan:
    """Return everything that a CephStorage consists of; published: fsid, monitors, and `<use>User`, `<use>Pool` and
    `<use>Secret` of each use that has a client.
    """
    cluster = {"local": _local, "external": _external, "rook": _rook}[ctx.spec.mode](ctx)
    _check_users(ctx, cluster)
    facts = health.status_facts(ctx)
    clients = {use: _client(ctx, cluster, use) for use in cluster.keys}
    setup = _setup(ctx, cluster, facts, after=tuple(clients.values()))
    status_pod = _status_pod(ctx, cluster)
    has_job = cluster.admin is not None
    connection = health.connection_verdict(facts, repairs_keys=has_job, makes_pools=has_job or ctx.spec.mode == "rook")
    conditions = health.condition_steps(facts, connection)
    is_healthy = bool(facts) and all(step.verdict and step.verdict.ready for step in conditions)
    return Plan(
        *parts.policies(ctx, *(parts.IngressRule(daemon, [], "service") for daemon in ("mon", "mgr", "osd"))),
        *cluster.steps,
        *clients.values(),
        *setup,
        *_restored(ctx),
        *status_pod,
        *conditions,
        endpoint=",".join(cluster.monitors),
        published=_published(ctx, cluster, clients),
        details=health.details(facts),
        wake=ctx.now + timedelta(seconds=30 if is_healthy else 5),
    )


def _published(ctx: Context[CephStorageSpec], cluster: Cluster, clients: Mapping[str, parts.Config]) -> dict[str, str]:
    if not clients:
        return {}
    contract = {"fsid": cluster.fsid, "monitors": ",".join(cluster.monitors)}
    for use, secret in clients.items():
        pool = config.pool_names(ctx.spec)[use]
        contract |= {f"{use}User": f"client.{cluster.names[use]}", f"{use}Pool": pool, f"{use}Secret": secret.secret}
    return contract


def _check_users(ctx: Context[CephStorageSpec], cluster: Cluster) -> None:
    """Raise SpecError if two uses have one user, which the operator would give the rights of only one of them."""
    uses: dict[str, str] = {}
    for use, user in cluster.names.items() if ctx.spec.mode != "external" else ():
        if uses.setdefault(user, use) != use:
            text = f"{user!r} is already the user of pools.{uses[user]}, which needs other rights; choose another name"
            raise SpecError(f"spec.pools.{use}.user", text)


def _local(ctx: Context[CephStorageSpec]) -> Cluster:
    names = users(ctx.spec)
    retain = ctx.spec.osds.retention == "Retain"
    passwords = ("fsid", "mon", "admin", "mgr", "osd", *names.values())
    keys = parts.credentials(ctx, *passwords, suffix="keys", retain=retain, of_data=True)
    identity, hosts = config.fsid(keys["fsid"]), list(daemons.monitors(ctx).values())
    text = config.daemon_conf(ctx, identity, hosts)
    conf = parts.written(ctx, {"ceph.conf": text}, suffix="daemon-config", directory="/etc/ceph")
    record = daemons.record(ctx)
    addresses = daemons.addresses(ctx, record)
    daemon_steps = daemons.daemons(ctx, keys, record, addresses, conf)
    return Cluster(
        fsid=identity,
        monitors=hosts,
        conf=config.client_conf(ctx.spec, identity, hosts),
        keys={use: config.cephx(keys[user]) for use, user in names.items()},
        names=names,
        steps=(keys, conf, record, addresses, *daemon_steps),
        daemons=daemon_steps[-3:],
        admin=("client.admin", config.cephx(keys["admin"])),
    )


def _external(ctx: Context[CephStorageSpec]) -> Cluster:
    """Raise MissingReference for a Secret that is incomplete, SpecError if the spec names none."""
    external = ctx.spec.external
    if external is None:
        # The API server refuses it; `render` does not.
        raise SpecError("spec.external", "mode external needs a Secret with the login; set external.secretRef")
    secret, field = external.secret_ref.name, "spec.external.secretRef"
    conf, fsid, monitors = coordinates(ctx.secrets.get(secret, {}), secret, field)
    names = users(ctx.spec)
    if external.manage:
        passwords = parts.credentials(ctx, *names.values(), suffix="keys", retain=True, of_data=True)
        keys = {use: config.cephx(passwords[user]) for use, user in names.items()}
        steps, admin = (passwords,), login(ctx.secrets.get(secret, {}), secret, field)
    else:
        keys, steps, admin = _external_keys(ctx, external, names), (), None
    return Cluster(fsid=fsid, monitors=monitors, conf=conf, keys=keys, names=names, steps=steps, admin=admin)


def _external_keys(ctx: Context[CephStorageSpec], external: External, names: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of the uses whose client is in the Secret. Raise MissingReference if none is."""
    secret = external.secret_ref.name
    keyring_keys = dict(logins(ctx.secrets.get(secret, {}).get("keyring", "")))
    keys = {use: keyring_keys[f"client.{user}"] for use, user in names.items() if f"client.{user}" in keyring_keys}
    if not keys:
        clients = ", ".join(f"client.{user}" for user in names.values())
        message = (
            f"keyring of Secret {secret!r} lacks the keys of {clients}; add them, or set other users in spec.pools"
        )
        raise MissingReference("spec.external.secretRef", message)
    return keys


def _rook(ctx: Context[CephStorageSpec]) -> Cluster:
    state = rook.rook_state(ctx)
    conf = config.client_conf(ctx.spec, state.fsid, state.monitors)
    return Cluster(
        fsid=state.fsid,
        monitors=state.monitors,
        conf=conf,
        keys={use: key for use, (_, key) in state.clients.items()},
        names={use: user for use, (user, _) in state.clients.items()},
        steps=rook.resources(ctx),
    )


def _client(ctx: Context[CephStorageSpec], cluster: Cluster, use: str) -> parts.Config:
    """Return Secret `<owner>-client-<use>`, with which a service logs in."""
    key = cluster.keys[use]
    data = {"ceph.conf": cluster.conf, "keyring": keyring(f"client.{cluster.names[use]}", key), "key": key}
    secret = parts.written(ctx, data, suffix=f"client-{use}", directory="/etc/ceph")
    return replace(secret, name="Clients", after=cluster.steps[:1])


def _program() -> dict[str, str]:
    return {"keeper.py": agents.text("cephstorage/keeper.py")}


def _setup(
    ctx: Context[CephStorageSpec], cluster: Cluster, facts: Mapping[str, Any], *, after: tuple[Step, ...]
) -> tuple[Step, ...]:
    """Return the job that makes pools and clients; it runs again if a key is refused or a pool is missing."""
    if cluster.admin is None:
        return ()
    user, key = cluster.admin
    spec, names = ctx.spec, config.pool_names(ctx.spec)
    desired = {
        "user": user,
        "owned": spec.mode == "local",
        # Of a Ceph of ours, its own pool grows with it.
        "own_copies": config.replica_count(spec) if spec.mode == "local" else 0,
        "pools": [
            {
                "name": names[use],
                "size": pool.size,
                "default": config.replica_count(spec, pool),
                "placement_groups": pool.placement_groups,
                "autoscale": pool.autoscale,
            }
            for use, pool in pools(spec).items()
        ],
        "clients": [
            {"user": f"client.{cluster.names[use]}", "key": cluster.keys[use], "caps": config.caps(spec, use)}
            for use in USERS
        ],
    }
    data = {
        **_program(),
        "wanted.json": json.dumps(desired),
        "ceph.conf": cluster.conf,
        f"{user}.keyring": keyring(user, key),
    }
    secret = replace(parts.written(ctx, data, suffix="pools-setup", directory=FOLDER, whole=True), name="Pools")
    main = kube.Container(
        entry=ctx.release["ceph-pools"],
        command=["python3", f"{FOLDER}/keeper.py", "ensure", FOLDER],
        # Other work is another job.
        env={"WANTED": secret.digest, "AGAIN": health.rerun_marker(ctx, secret.digest, facts)},
        mounts=(kube.folder("setup", secret.secret, FOLDER), *kube.scratch("/tmp")),  # noqa: S108
        memory="64Mi",
    )
    template = kube.pod(ctx, "pools", main, settings=kube.settings(spec))
    job = Step(name="Pools", objects=(kube.job(ctx, "pools", template),), after=(secret, *cluster.daemons, *after))
    return secret, job


def _restored(ctx: Context[CephStorageSpec]) -> tuple[Step, ...]:
    """Return the step that keeps services from pools which an OpenStackRestore is to fill: Nova would start servers
    without their disks. Nothing in a cloud that was not restored.
    """
    data = {part: ctx.secret(part) for part in ("restoring", "restored")}
    if not data["restoring"]:
        return ()
    name = ctx.name("restoring")
    text = f"waits until an OpenStackRestore has filled the pools; if you have deleted it, delete Secret/{name}"
    secrets = tuple(kube.secret(ctx, ctx.name(part), values) for part, values in data.items() if values)
    is_over = data["restored"] == data["restoring"]
    return (Step(name="Pools", objects=secrets, verdict=None if is_over else waiting(text)),)


def _status_pod(ctx: Context[CephStorageSpec], cluster: Cluster) -> tuple[Step, ...]:
    """Return the status pod, which has only the services' keys; nothing until there are keys."""
    if not cluster.keys:
        return ()
    clients = {f"client.{cluster.names[use]}": config.pool_names(ctx.spec)[use] for use in cluster.keys}
    # Two uses may share a user.
    users = {f"client.{cluster.names[use]}": key for use, key in cluster.keys.items()}
    rings = {f"{user}.keyring": keyring(user, key) for user, key in users.items()}
    program = _program()
    data = {**program, "wanted.json": json.dumps({"clients": clients}), "ceph.conf": cluster.conf, **rings}
    secret = replace(parts.written(ctx, data, suffix="status-setup", directory=FOLDER, whole=True), name="Status")
    main = kube.Container(
        entry=ctx.release["ceph-status"],
        command=["python3", "-u", f"{FOLDER}/keeper.py", "serve", FOLDER, str(PORT)],
        ports={"facts": PORT},
        # It reads new keys without a restart.
        mounts=(kube.folder("setup", secret.secret, FOLDER), *kube.scratch("/tmp")),  # noqa: S108
        ready=kube.Probe(tcp=PORT),
        alive=kube.Probe(tcp=PORT),
        memory="48Mi",
    )
    settings = kube.settings(ctx.spec)
    digest = {kube.CONFIG_DIGEST: kube.digest(program)}
    template = kube.pod(ctx, health.WATCHER, main, settings=settings, annotations=digest, grace=3)
    template["metadata"]["labels"][kube.WATCHED] = "true"
    target = kube.selector(ctx, health.WATCHER)
    template = kube.placed(template, settings, target, several=False, replaceable=True)
    pods = kube.workload(ctx, "Deployment", health.WATCHER, template, replicas=1)
    return secret, Step(name="Status", objects=(pods,), after=(secret,))
