"""CephStorage: a Ceph, ours or others', with a pool for each use and a client that may work in it and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import resources
from typing import Any

from ... import kube, parts
from ...parts.ceph import coordinates, keyring, login, logins
from ...plan import Context, MissingReference, Plan, SpecError, Step
from . import config, daemons, health, rook
from .keeper import FOLDER, PORT
from .model import USERS, CephStorageSpec, External, pools, users


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Ceph that is there or is being made, as far as it is known."""

    fsid: str
    monitors: Sequence[str]
    conf: str
    """ceph.conf of whoever logs in."""
    keys: Mapping[str, str]
    """Key of each use."""
    names: Mapping[str, str]
    """User of each use, without `client.`."""
    steps: tuple[Step, ...]
    running: tuple[Step, ...] = ()
    """What must be ready before anybody logs in."""
    admin: tuple[str, str] | None = None
    """(user, key) of who may make pools and clients; None where others do."""


def plan(ctx: Context[CephStorageSpec]) -> Plan:
    """Everything a CephStorage is made of; published: fsid, monitors, and `<use>User`, `<use>Pool` and `<use>Secret` of
    each use that has a client.
    """
    cluster = {"local": _local, "external": _external, "rook": _rook}[ctx.spec.mode](ctx)
    facts = health.seen(ctx)
    clients = {use: _client(ctx, cluster, use) for use in cluster.keys}
    made = _made(ctx, cluster, facts, after=tuple(clients.values()))
    watcher = _watcher(ctx, cluster)
    found = health.condition(facts, ours=cluster.admin is not None)
    calm = bool(facts) and all(step.verdict and step.verdict.ready for step in found)
    return Plan(
        *parts.policies(ctx, *(parts.Way(daemon, [], "service") for daemon in ("mon", "mgr", "osd"))),
        *cluster.steps,
        *clients.values(),
        *made,
        *watcher,
        *found,
        endpoint=",".join(cluster.monitors),
        published=_published(ctx, cluster, clients),
        details=health.details(facts),
        wake=ctx.now + timedelta(seconds=30 if calm else 5),
    )


def _published(ctx: Context[CephStorageSpec], cluster: Cluster, clients: Mapping[str, parts.Config]) -> dict[str, str]:
    if not clients:
        return {}
    found = {"fsid": cluster.fsid, "monitors": ",".join(cluster.monitors)}
    for use, secret in clients.items():
        pool = config.names(ctx.spec)[use]
        found |= {f"{use}User": f"client.{cluster.names[use]}", f"{use}Pool": pool, f"{use}Secret": secret.secret}
    return found


def _local(ctx: Context[CephStorageSpec]) -> Cluster:
    named = users(ctx.spec)
    kept = ctx.spec.osds.retention == "Retain"
    drawn = ("fsid", "mon", "admin", "mgr", "osd", *named.values())
    keys = parts.credentials(ctx, *drawn, suffix="keys", retain=kept, of_data=True)
    identity, hosts = config.fsid(keys["fsid"]), list(daemons.monitors(ctx).values())
    text = config.daemon_conf(ctx, identity, hosts)
    conf = parts.written(ctx, {"ceph.conf": text}, suffix="daemon-config", directory="/etc/ceph")
    known = daemons.record(ctx)
    reached = daemons.addresses(ctx, known)
    running = daemons.daemons(ctx, keys, known, reached, conf)
    return Cluster(
        fsid=identity,
        monitors=hosts,
        conf=config.client_conf(ctx.spec, identity, hosts),
        keys={use: config.cephx(keys[user]) for use, user in named.items()},
        names=named,
        steps=(keys, conf, known, reached, *running),
        running=running[-3:],
        admin=("client.admin", config.cephx(keys["admin"])),
    )


def _external(ctx: Context[CephStorageSpec]) -> Cluster:
    """Raises MissingReference for a Secret that lacks something, SpecError where none is named."""
    outside = ctx.spec.external
    if outside is None:
        # The API server refuses it; what is only rendered comes here.
        raise SpecError("spec.external", "mode external needs the Secret of that Ceph; set external.secretRef")
    secret, field = outside.secret_ref.name, "spec.external.secretRef"
    conf, fsid, monitors = coordinates(ctx.secrets.get(secret, {}), secret, field)
    named = users(ctx.spec)
    if outside.manage:
        drawn = parts.credentials(ctx, *named.values(), suffix="keys", retain=True, of_data=True)
        keys = {use: config.cephx(drawn[user]) for use, user in named.items()}
        steps, admin = (drawn,), login(ctx.secrets.get(secret, {}), secret, field)
    else:
        keys, steps, admin = _given(ctx, outside, named), (), None
    return Cluster(fsid=fsid, monitors=monitors, conf=conf, keys=keys, names=named, steps=steps, admin=admin)


def _given(ctx: Context[CephStorageSpec], outside: External, named: Mapping[str, str]) -> dict[str, str]:
    """Keys of those uses whose client is in the Secret. Raises MissingReference where none is."""
    secret = outside.secret_ref.name
    there = dict(logins(ctx.secrets.get(secret, {}).get("keyring", "")))
    found = {use: there[f"client.{user}"] for use, user in named.items() if f"client.{user}" in there}
    if not found:
        wanted = ", ".join(f"client.{user}" for user in named.values())
        message = f"keyring of Secret {secret!r} holds no key of {wanted}; add them, or name others in spec.pools"
        raise MissingReference("spec.external.secretRef", message)
    return found


def _rook(ctx: Context[CephStorageSpec]) -> Cluster:
    found = rook.found(ctx)
    conf = config.client_conf(ctx.spec, found.fsid, found.monitors)
    return Cluster(
        fsid=found.fsid,
        monitors=found.monitors,
        conf=conf,
        keys={use: key for use, (_, key) in found.clients.items()},
        names={use: user for use, (user, _) in found.clients.items()},
        steps=rook.resources(ctx),
    )


def _client(ctx: Context[CephStorageSpec], cluster: Cluster, use: str) -> parts.Config:
    """Secret `<owner>-client-<use>`: what a service needs to log in."""
    key = cluster.keys[use]
    data = {"ceph.conf": cluster.conf, "keyring": keyring(f"client.{cluster.names[use]}", key), "key": key}
    made = parts.written(ctx, data, suffix=f"client-{use}", directory="/etc/ceph")
    return replace(made, name="Clients", after=cluster.steps[:1])


def _program() -> dict[str, str]:
    text = resources.files(__package__ or "").joinpath("keeper.py").read_text(encoding="utf-8")
    return {"keeper.py": text}


def _made(
    ctx: Context[CephStorageSpec], cluster: Cluster, facts: Mapping[str, Any], *, after: tuple[Step, ...]
) -> tuple[Step, ...]:
    """The job that makes pools and clients; done again when it is seen that something is not as it was made."""
    if cluster.admin is None:
        return ()
    user, key = cluster.admin
    spec, names = ctx.spec, config.names(ctx.spec)
    wanted = {
        "user": user,
        "owned": spec.mode == "local",
        # Of a Ceph of ours, its own pool grows with it.
        "own_copies": config.copies(spec) if spec.mode == "local" else 0,
        "pools": [
            {
                "name": names[use],
                "size": pool.size,
                "default": config.copies(spec, pool),
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
        "wanted.json": json.dumps(wanted),
        "ceph.conf": cluster.conf,
        f"{user}.keyring": keyring(user, key),
    }
    secret = replace(parts.written(ctx, data, suffix="pools-setup", directory=FOLDER, whole=True), name="Pools")
    main = kube.Container(
        component=ctx.release["ceph-pools"],
        command=["python3", f"{FOLDER}/keeper.py", "ensure"],
        # Other work is another job.
        env={"WANTED": secret.digest, "AGAIN": health.again(ctx, secret.digest, facts)},
        mounts=(kube.folder("setup", secret.secret, FOLDER), *kube.scratch("/tmp")),  # noqa: S108
        memory="64Mi",
    )
    template = kube.pod(ctx, "pools", main, wanted=kube.settings(spec))
    done = Step(name="Pools", objects=(kube.job(ctx, "pools", template),), after=(secret, *cluster.running, *after))
    return secret, done


def _watcher(ctx: Context[CephStorageSpec], cluster: Cluster) -> tuple[Step, ...]:
    """The pod that looks, with the keys of the services and no other; nothing as long as there are none."""
    if not cluster.keys:
        return ()
    clients = {f"client.{cluster.names[use]}": config.names(ctx.spec)[use] for use in cluster.keys}
    rings = {f"{user}.keyring": keyring(user, key) for user, key in zip(clients, cluster.keys.values(), strict=True)}
    program = _program()
    data = {**program, "wanted.json": json.dumps({"clients": clients}), "ceph.conf": cluster.conf, **rings}
    secret = replace(parts.written(ctx, data, suffix="status-setup", directory=FOLDER, whole=True), name="Status")
    main = kube.Container(
        component=ctx.release["ceph-status"],
        command=["python3", "-u", f"{FOLDER}/keeper.py", "serve"],
        ports={"facts": PORT},
        # It follows new keys without a restart.
        mounts=(kube.folder("setup", secret.secret, FOLDER), *kube.scratch("/tmp")),  # noqa: S108
        ready=kube.Probe(tcp=PORT),
        alive=kube.Probe(tcp=PORT),
        memory="48Mi",
    )
    wanted = kube.settings(ctx.spec)
    digest = {kube.CONFIG_DIGEST: kube.digest(program)}
    template = kube.pod(ctx, health.WATCHER, main, wanted=wanted, annotations=digest, grace=3)
    template["metadata"]["labels"][kube.WATCHED] = "true"
    target = kube.selector(ctx, health.WATCHER)
    template = kube.placed(template, wanted, target, several=False, replaceable=True)
    pods = kube.workload(ctx, "Deployment", health.WATCHER, template, replicas=1)
    return secret, Step(name="Status", objects=(pods,), after=(secret,))
