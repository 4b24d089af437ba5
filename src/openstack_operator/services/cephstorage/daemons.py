"""A small Ceph of ours: monitors with an address each, a manager, and OSDs in files of their volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ... import kube, parts
from ...api import mebibytes
from ...parts.connect.ceph import keyring
from ...parts.members import POD_NAME, volume
from ...plan import Context, Object, Step
from . import config
from .model import CephStorageSpec

RECORD = "/etc/ceph/record"
_LETTERS = "abcdefghi"


def monitors(ctx: Context[CephStorageSpec]) -> dict[str, str]:
    """Return the host of each monitor, by its letter."""
    letters = _LETTERS[: ctx.spec.monitors.replicas]
    return {letter: ctx.host(ctx.name("mon", letter)) for letter in letters}


def record(ctx: Context[CephStorageSpec]) -> Step:
    """Return the step of Secret `<owner>-record`: `state`, which is `existing` after the first majority, and for each
    monitor the address that clients and the map of monitors keep. It lives as long as the volumes.
    """
    name, previous = ctx.name("record"), ctx.secret("record", or_deleted=True)
    # A monitor is ready as part of a majority.
    had_majority = previous.get("state") == "existing" or _cluster(ctx, "mon").ready_replicas > 0
    addresses = {letter: _address(ctx, letter, previous) for letter in monitors(ctx)}
    data = {"state": "existing" if had_majority else "new", **{key: ip for key, ip in addresses.items() if ip}}
    secret = kube.of_volumes(kube.irreplaceable(kube.secret(ctx, name, data)))
    retain = ctx.spec.osds.retention == "Retain"
    return Step(name="Record", objects=(kube.retained(secret) if retain else secret,), guarded=True)


def _address(ctx: Context[CephStorageSpec], letter: str, previous: Mapping[str, str]) -> str:
    live = ctx.live("Service", "mon", letter) or {}
    return previous.get(letter) or live.get("spec", {}).get("clusterIP", "")


def addresses(ctx: Context[CephStorageSpec], record_step: Step) -> Step:
    """Return a step with a Service for each monitor. A Service that a user deleted comes back with its address."""
    recorded = kube.secret_data(record_step.objects[0])
    pods = _cluster(ctx, "mon").pod_names(ctx.spec.monitors.replicas)
    services: list[Object] = []
    for pod, letter in zip(pods, monitors(ctx), strict=True):
        target = {**kube.selector(ctx, "mon"), "statefulset.kubernetes.io/pod-name": pod}
        service = kube.service(ctx, ctx.name("mon", letter), config.ports(ctx.spec), target)
        # Monitors find each other by it before they are a majority.
        spec = {**service["spec"], "publishNotReadyAddresses": True, "clusterIP": recorded.get(letter)}
        services.append(kube.drop_none({**service, "spec": spec}))
    return Step(name="Addresses", objects=tuple(services), after=(record_step,))


def daemons(
    ctx: Context[CephStorageSpec], keys: parts.Credentials, record_step: Step, services: Step, conf: parts.Config
) -> tuple[Step, ...]:
    """Return the steps of monitors, manager and OSDs, with the keys of each."""
    key = {name: config.cephx(keys[name]) for name in ("mon", "admin", "mgr", "osd")}
    entries = {
        "mon.": ("mon", config.MON),
        "client.admin": ("admin", config.ADMIN),
        "mgr.x": ("mgr", config.MGR),
        "client.osd": ("osd", config.OSD),
    }
    rings = {name: keyring(user, key[name], caps) for user, (name, caps) in entries.items()}
    mon_keys = _keys(ctx, "mon", "".join(rings.values()))
    mgr_keys, osd_keys = _keys(ctx, "mgr", rings["mgr"]), _keys(ctx, "osd", rings["osd"])
    shared = (keys, conf)
    mon = _mon(ctx, conf, mon_keys, record_step, after=(*shared, mon_keys, services))
    # The first monitors make the accounts of manager and OSDs.
    mgr = _mgr(ctx, conf, mgr_keys, after=(*shared, mgr_keys, mon))
    osd = _osd(ctx, conf, osd_keys, after=(*shared, osd_keys, mon))
    return mon_keys, mgr_keys, osd_keys, mon, mgr, osd


def _keys(ctx: Context[CephStorageSpec], daemon: str, ring: str) -> parts.Config:
    secret = parts.written(ctx, {"keyring": ring}, suffix=f"{daemon}-key", directory="/etc/ceph/daemon")
    return replace(secret, name="Keys")


def _container(
    ctx: Context[CephStorageSpec],
    kind: str,
    conf: parts.Config,
    keys: parts.Config,
    *,
    mounts: Sequence[kube.Mount],
    env: Mapping[str, str] | None = None,
    **settings: Any,
) -> kube.Container:
    entry = ctx.release[f"ceph-{kind}"]
    return kube.Container(
        entry=entry,
        env={**POD_NAME, "POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}}, **(env or {})},
        mounts=(
            *conf.mounts,
            kube.folder("keys", keys.secret, keys.directory),
            *kube.scratch("/run/ceph", "/tmp"),  # noqa: S108
            *mounts,
        ),
        ready=kube.Probe(command=entry.commands["ready"], period=10),
        **settings,
    )


def _mon(
    ctx: Context[CephStorageSpec], conf: parts.Config, keys: parts.Config, record_step: Step, *, after: tuple[Step, ...]
) -> Step:
    spec = ctx.spec.monitors
    words = " ".join(f"{letter}={host}" for letter, host in monitors(ctx).items())
    main = _container(
        ctx,
        "mon",
        conf,
        keys,
        env={"CEPH_MONITORS": words},
        ports=config.ports(ctx.spec),
        mounts=(
            volume(config.STATE, "ceph"),
            kube.folder("record", record_step.objects[0]["metadata"]["name"], RECORD),
        ),
        memory="96Mi",
        cpu="20m",
    )
    cluster = _cluster(ctx, "mon")
    template = cluster.template(main, config=conf)
    ports = {"v2": config.V2}
    return cluster.step(template, ports=ports, replicas=spec.replicas, condition="Monitors", after=after)


def _mgr(ctx: Context[CephStorageSpec], conf: parts.Config, keys: parts.Config, *, after: tuple[Step, ...]) -> Step:
    """Return the manager: statistics, placement groups, deletion of trash. Ceph works for a while without it."""
    main = _container(ctx, "mgr", conf, keys, mounts=kube.scratch(config.STATE), memory="256Mi", cpu="20m")
    settings = kube.settings(ctx.spec)
    template = kube.pod(ctx, "mgr", main, settings=settings, annotations={kube.CONFIG_DIGEST: conf.digest})
    template = kube.placed(template, settings, kube.selector(ctx, "mgr"), several=False, replaceable=True)
    # Two of one name would replace each other again and again.
    pods = kube.workload(ctx, "Deployment", "mgr", template, replicas=1, strategy={"type": "Recreate"})
    return Step(name="Manager", objects=(pods,), after=after)


def _osd(ctx: Context[CephStorageSpec], conf: parts.Config, keys: parts.Config, *, after: tuple[Step, ...]) -> Step:
    spec = ctx.spec.osds
    main = _container(
        ctx,
        "osd",
        conf,
        keys,
        env={"OSD_BYTES": str(config.block_bytes(spec.storage_size))},
        mounts=(volume(config.STATE, "ceph"),),
        memory=f"{mebibytes(spec.memory)}Mi",
        cpu="50m",
    )
    cluster = _cluster(ctx, "osd")
    template = cluster.template(main, config=conf, grace=60)
    return cluster.step(template, ports={"v2": 6800}, replicas=spec.replicas, condition="OSDs", after=after)


def _cluster(ctx: Context[CephStorageSpec], component: Literal["mon", "osd"]) -> parts.Cluster:
    """Return the monitors or the OSDs, with the section of the spec that is theirs."""
    section, path = (ctx.spec.monitors, "spec.monitors") if component == "mon" else (ctx.spec.osds, "spec.osds")
    settings = kube.settings(ctx.spec, section)
    return parts.cluster(ctx, component, ctx.name(f"{component}s"), settings=settings, storage=section, path=path)
