"""Rook's resources, and the Secrets that Rook writes in this namespace once it has made a cluster of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube
from ...parts.connect.ceph import coordinates, login, monitors
from ...parts.secrets.one_line import one_line
from ...plan import READY, Context, Kind, Object, SpecError, State, Step, Verdict, failed, key, progressing
from . import config
from .model import USERS, CephStorageSpec, pools, users

API = "ceph.rook.io/v1"
_DEFAULT_COPIES = 3
"""Copies of each object in a pool that Ceph makes (`osd_pool_default_size`)."""
KINDS = (
    Kind(API, "CephCluster", "cephclusters", project="rook"),
    Kind(API, "CephBlockPool", "cephblockpools", project="rook"),
    # Before v1.19, which has `security.cephx.keyType`, Rook made no other keys than those of the older kind.
    Kind(API, "CephClient", "cephclients", project="rook", newer_fields=("security",)),
)


@dataclass(frozen=True)
class RookState:
    """Facts that Rook has published so far."""

    fsid: str
    monitors: Sequence[str]
    clients: Mapping[str, tuple[str, str]]
    """(user, key) of each use; empty until clients can log in."""


def resources(ctx: Context[CephStorageSpec]) -> tuple[Step, ...]:
    """Return steps with the cluster, a pool and a client for each use, and the state that Rook reports of them."""
    spec, client_names, pool_names = ctx.spec, users(ctx.spec), config.pool_names(ctx.spec)
    cluster = _step(ctx, "Cluster", _cluster(ctx))
    block_pools = [kube.obj(ctx, "CephBlockPool", pool_names[use], API, spec=_pool(spec, use)) for use in pools(spec)]
    clients = [
        kube.obj(
            ctx,
            "CephClient",
            client_names[use],
            API,
            # Clients of Ceph as old as those in the images of OpenStack support no other kind of key.
            spec={"caps": config.caps(spec, use), "security": {"cephx": {"keyType": "aes"}}},
        )
        for use in USERS
    ]
    return cluster, _step(ctx, "Pools", *block_pools), _step(ctx, "Clients", *clients)


def _cluster(ctx: Context[CephStorageSpec]) -> Object:
    """Raise SpecError if `cluster` has a value for which a CephStorage has a field."""
    rook, network = ctx.spec.rook, ctx.spec.rook.network
    if ctx.spec.encrypted:
        connections = {"encryption": {"enabled": True}, "requireMsgr2": True}
        network = {**network, "connections": {**network.get("connections", {}), **connections}}
    spec: dict[str, Any] = {
        "cephVersion": {"image": rook.image},
        "dataDirHostPath": rook.data_dir_host_path,
        "mon": {"count": rook.monitors},
        "mgr": {"count": 1},
        "dashboard": {"enabled": False},
        "crashCollector": {"disable": True},
        "network": network,
        "storage": rook.storage,
        **_ceph_config(ctx.spec),
    }
    _reject_fields(rook.cluster)
    return kube.obj(ctx, "CephCluster", ctx.owner, API, spec=_merge(spec, rook.cluster))


_OWN_FIELDS = {
    "cephVersion.image": "image",
    "dataDirHostPath": "dataDirHostPath",
    "mon.count": "monitors",
    "network": "network",
    "storage": "storage",
}
"""Fields of a CephCluster, each with the field of `rook` that sets it."""


def _reject_fields(cluster: Mapping[str, Any]) -> None:
    for path, rook_field in _OWN_FIELDS.items():
        name, _, inner = path.partition(".")
        value = cluster.get(name)
        if name in cluster and (not inner or not isinstance(value, Mapping) or inner in value):
            raise SpecError(f"spec.rook.cluster.{path}", f"set spec.rook.{rook_field} instead")


def _merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of both, mappings in them merged as well; of two other values, that of `upper`."""
    merged = {**lower, **upper}
    both = {name for name in lower if isinstance(lower[name], Mapping) and isinstance(upper.get(name), Mapping)}
    return {name: _merge(lower[name], upper[name]) if name in both else value for name, value in merged.items()}


def _ceph_config(spec: CephStorageSpec) -> dict[str, Any]:
    """Return the options for a Ceph whose pools have fewer copies than Ceph expects: the pool that Ceph itself makes
    would wait without end for OSDs that do not exist.
    """
    most = max(config.replica_count(spec, pool) for pool in pools(spec).values())
    if most >= _DEFAULT_COPIES:
        return {}
    options = {"osd_pool_default_size": str(most)}
    if most == 1:
        options["mon_warn_on_pool_no_redundancy"] = "false"
    return {"cephConfig": {"global": options}}


def _pool(spec: CephStorageSpec, use: str) -> Object:
    pool = pools(spec)[use]
    size = config.replica_count(spec, pool)
    return {
        "failureDomain": spec.rook.failure_domain,
        "replicated": {"size": size, "requireSafeReplicaSize": size > 1},
        "application": "rbd",
        "parameters": {"pg_autoscale_mode": pool.autoscale},
    }


def _step(ctx: Context[CephStorageSpec], name: str, *objects: Object) -> Step:
    """Return a step that is ready if Rook reports all its objects as ready."""
    manifests = tuple(kube.retained(obj) if obj["kind"] != "CephClient" else obj for obj in objects)
    verdicts = [_verdict(ctx.children.get(key(obj))) for obj in objects]
    worst = max(verdicts, key=lambda verdict: verdict.state)
    return Step(name=name, objects=manifests, verdict=worst)


def _verdict(live: Mapping[str, Any] | None) -> Verdict:
    """Return a verdict from the phase of a resource of Rook."""
    if live is None:
        return progressing("not there yet")
    status = live.get("status") or {}
    subject = f"{live['kind']}/{live['metadata']['name']}"
    phase = status.get("phase", "")
    if phase in {"Ready", "Connected"}:
        return READY
    message = status.get("message") or f"phase {phase or 'unknown: does the Rook operator run?'}"
    if phase in {"Failure", "Error"}:
        return failed(f"{subject}: {message}", "RookFailed")
    return Verdict(State.PROGRESSING, f"{subject}: {message}")


def rook_state(ctx: Context[CephStorageSpec]) -> RookState:
    """Return the state in Rook's Secrets. Earlier facts, in the clients' Secrets, hold until Rook has newer ones."""
    identity = ctx.secrets.get("rook-ceph-mon", {}).get("fsid", "")
    addresses = monitors(ctx.secrets.get("rook-ceph-config", {}).get("mon_host", ""))
    clients: dict[str, tuple[str, str]] = {}
    for use, user in users(ctx.spec).items():
        client_secret = kube.secret_data(ctx.children.get(("Secret", secret_name(ctx, use))))
        if client_secret and not (identity and addresses):
            _, identity, addresses = coordinates(client_secret, "", "spec.mode")
        rook_secret = f"rook-ceph-client-{user}"
        if client_key := ctx.secrets.get(rook_secret, {}).get(user):
            clients[use] = user, one_line(client_key.strip(), "spec.mode", rook_secret, user)
        elif client_secret:
            entity, key = login(client_secret, "", "spec.mode")
            clients[use] = entity.partition(".")[2], key
    # Contracts name all uses at once: consumers would refuse a use that is only late.
    return RookState(identity, addresses, clients if identity and addresses and len(clients) == len(USERS) else {})


def secret_name(ctx: Context[CephStorageSpec], use: str) -> str:
    """Return the name of the Secret of a use's client."""
    return ctx.name(f"client-{use}")
