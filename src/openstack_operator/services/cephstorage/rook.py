"""The resources of Rook's, and what Rook writes down in this namespace once it has made what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ... import kube
from ...parts.ceph import coordinates, login, monitors
from ...plan import READY, Context, Object, State, Step, Verdict, failed, key, progressing
from . import config
from .model import USERS, CephStorageSpec, pools, users

API = "ceph.rook.io/v1"


@dataclass(frozen=True)
class Found:
    """What Rook has told so far."""

    fsid: str
    monitors: Sequence[str]
    clients: Mapping[str, tuple[str, str]]
    """(user, key) of each use; empty as long as nobody could log in."""


def resources(ctx: Context[CephStorageSpec]) -> tuple[Step, ...]:
    """The cluster, a pool for each use, and a client for each, with what Rook says of them."""
    spec, named = ctx.spec, users(ctx.spec)
    cluster = _step(ctx, "Cluster", _cluster(ctx))
    made = [kube.obj(ctx, "CephBlockPool", config.names(spec)[use], API, spec=_pool(spec, use)) for use in pools(spec)]
    clients = [
        kube.obj(
            ctx,
            "CephClient",
            named[use],
            API,
            # Clients of Ceph as old as those in the images of OpenStack know no other kind of key.
            spec={"caps": config.caps(spec, use), "security": {"cephx": {"keyType": "aes"}}},
        )
        for use in USERS
    ]
    return cluster, _step(ctx, "Pools", *made), _step(ctx, "Clients", *clients)


def _cluster(ctx: Context[CephStorageSpec]) -> Object:
    rook, network = ctx.spec.rook, ctx.spec.rook.network
    if ctx.spec.encrypted:
        connections = {"encryption": {"enabled": True}, "requireMsgr2": True}
        network = {**network, "connections": {**network.get("connections", {}), **connections}}
    return kube.obj(
        ctx,
        "CephCluster",
        ctx.owner,
        API,
        spec={
            "cephVersion": {"image": rook.image},
            "dataDirHostPath": rook.data_dir_host_path,
            "mon": {"count": rook.monitors},
            "mgr": {"count": 1},
            "dashboard": {"enabled": False},
            "crashCollector": {"disable": True},
            "network": network,
            "storage": rook.storage,
        },
    )


def _pool(spec: CephStorageSpec, use: str) -> Object:
    pool = pools(spec)[use]
    size = config.copies(spec, pool)
    return {
        "failureDomain": spec.rook.failure_domain,
        "replicated": {"size": size, "requireSafeReplicaSize": size > 1},
        "application": "rbd",
        "parameters": {"pg_autoscale_mode": pool.autoscale},
    }


def _step(ctx: Context[CephStorageSpec], name: str, *objects: Object) -> Step:
    """A step that is ready when Rook says that everything in it is."""
    kept = tuple(kube.retained(obj) if obj["kind"] != "CephClient" else obj for obj in objects)
    verdicts = [_verdict(ctx.children.get(key(obj))) for obj in objects]
    worst = max(verdicts, key=lambda verdict: verdict.state)
    return Step(name=name, objects=kept, verdict=worst)


def _verdict(live: Mapping[str, Any] | None) -> Verdict:
    """Rook's phase of a resource of its own."""
    if live is None:
        return progressing("not there yet")
    status = live.get("status") or {}
    what = f"{live['kind']}/{live['metadata']['name']}"
    phase = status.get("phase", "")
    if phase in {"Ready", "Connected"}:
        return READY
    message = status.get("message") or f"phase {phase or 'unknown: does the Rook operator run?'}"
    if phase in {"Failure", "Error"}:
        return failed(f"{what}: {message}", "RookFailed")
    return Verdict(State.PROGRESSING, f"{what}: {message}")


def found(ctx: Context[CephStorageSpec]) -> Found:
    """What can be told from the Secrets Rook makes. What it told before holds until there is something newer."""
    identity = ctx.secrets.get("rook-ceph-mon", {}).get("fsid", "")
    at = monitors(ctx.secrets.get("rook-ceph-config", {}).get("mon_host", ""))
    known: dict[str, tuple[str, str]] = {}
    for use, user in users(ctx.spec).items():
        held = kube.secret_data(ctx.children.get(("Secret", secret_name(ctx, use))))
        if held and not (identity and at):
            _, identity, at = coordinates(held, "", "spec.mode")
        if keyring := ctx.secrets.get(f"rook-ceph-client-{user}", {}).get(user):
            known[use] = user, keyring
        elif held:
            before, key = login(held, "", "spec.mode")
            known[use] = before.partition(".")[2], key
    # Contracts name all there is at once: consumers would refuse a use that is only late.
    return Found(identity, at, known if identity and at and len(known) == len(USERS) else {})


def secret_name(ctx: Context[CephStorageSpec], use: str) -> str:
    """Name of the Secret of a use's client."""
    return kube.fitting(ctx.name(f"client-{use}"))
