"""A small Ceph of ours: monitors behind an address each, a manager, and OSDs in files of their volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ... import kube, parts
from ...api import PodSettings, mebibytes
from ...parts.ceph import keyring
from ...plan import Context, Object, Step
from . import config
from .model import CephStorageSpec

RECORD = "/etc/ceph/record"
_LETTERS = "abcdefghi"


def monitors(ctx: Context[CephStorageSpec]) -> dict[str, str]:
    """Host of each monitor, by its letter."""
    letters = _LETTERS[: ctx.spec.monitors.replicas]
    return {letter: ctx.host(kube.fitting(ctx.name("mon", letter))) for letter in letters}


def record(ctx: Context[CephStorageSpec]) -> Step:
    """Secret `<owner>-record`: whether there has been a majority, and the address of each monitor, which clients and
    the map of monitors hold on to; as long as the volumes.
    """
    name = ctx.name("record")
    held = kube.secret_data(ctx.children.get(("Secret", kube.fitting(name))) or ctx.lost.get(kube.fitting(name)))
    live = ctx.children.get(("StatefulSet", kube.fitting(ctx.name("mon"), kube.STATEFUL_SET_LIMIT)), {})
    # A monitor is ready as part of a majority.
    formed = held.get("state") == "existing" or bool((live.get("status") or {}).get("readyReplicas"))
    addresses = {letter: _address(ctx, letter, held) for letter in monitors(ctx)}
    data = {"state": "existing" if formed else "new", **{key: at for key, at in addresses.items() if at}}
    wanted = kube.irreplaceable(kube.secret(ctx, name, data))
    kept = ctx.spec.osds.retention == "Retain"
    return Step(name="Record", objects=(kube.retained(wanted) if kept else wanted,), guarded=True)


def _address(ctx: Context[CephStorageSpec], letter: str, held: Mapping[str, str]) -> str:
    live = ctx.children.get(("Service", kube.fitting(ctx.name("mon", letter))), {})
    return held.get(letter) or live.get("spec", {}).get("clusterIP", "")


def addresses(ctx: Context[CephStorageSpec], known: Step) -> Step:
    """A Service for each monitor, with the address it had before if somebody deleted it."""
    held = kube.secret_data(known.objects[0])
    pods = kube.fitting(ctx.name("mon"), kube.STATEFUL_SET_LIMIT)
    services: list[Object] = []
    for ordinal, letter in enumerate(monitors(ctx)):
        target = {**kube.selector(ctx, "mon"), "statefulset.kubernetes.io/pod-name": f"{pods}-{ordinal}"}
        service = kube.service(ctx, ctx.name("mon", letter), config.ports(ctx.spec), target)
        # Monitors find each other by it before they are a majority.
        spec = {**service["spec"], "publishNotReadyAddresses": True, "clusterIP": held.get(letter)}
        services.append(kube.drop_none({**service, "spec": spec}))
    return Step(name="Addresses", objects=tuple(services), after=(known,))


def daemons(
    ctx: Context[CephStorageSpec], keys: parts.Credentials, known: Step, reached: Step, conf: parts.Config
) -> tuple[Step, ...]:
    """The steps of monitors, manager and OSDs, with the keys of each."""
    key = {who: config.cephx(keys[who]) for who in ("mon", "admin", "mgr", "osd")}
    entries = {
        "mon.": ("mon", config.MON),
        "client.admin": ("admin", config.ADMIN),
        "mgr.x": ("mgr", config.MGR),
        "client.osd": ("osd", config.OSD),
    }
    rings = {who: keyring(user, key[who], caps) for user, (who, caps) in entries.items()}
    mon_keys = _keys(ctx, "mon", "".join(rings.values()))
    mgr_keys, osd_keys = _keys(ctx, "mgr", rings["mgr"]), _keys(ctx, "osd", rings["osd"])
    held = (keys, conf)
    mon = _mon(ctx, conf, mon_keys, known, after=(*held, mon_keys, reached))
    # The first monitors make the accounts of the others.
    mgr = _mgr(ctx, conf, mgr_keys, after=(*held, mgr_keys, mon))
    osd = _osd(ctx, conf, osd_keys, after=(*held, osd_keys, mon))
    return mon_keys, mgr_keys, osd_keys, mon, mgr, osd


def _keys(ctx: Context[CephStorageSpec], who: str, ring: str) -> parts.Config:
    made = parts.written(ctx, {"keyring": ring}, suffix=f"{who}-key", directory="/etc/ceph/daemon")
    return replace(made, name="Keys")


def _container(
    ctx: Context[CephStorageSpec],
    kind: str,
    conf: parts.Config,
    keys: parts.Config,
    *,
    mounts: Sequence[kube.Mount],
    env: Mapping[str, str] | None = None,
    **own: Any,
) -> kube.Container:
    entry = ctx.release[f"ceph-{kind}"]
    return kube.Container(
        component=entry,
        env={**parts.POD_NAME, "POD_IP": {"fieldRef": {"fieldPath": "status.podIP"}}, **(env or {})},
        mounts=(
            *conf.mounts,
            kube.folder("keys", keys.secret, keys.directory),
            *kube.scratch("/run/ceph", "/tmp"),  # noqa: S108
            *mounts,
        ),
        ready=kube.Probe(command=entry.commands["ready"], period=10),
        **own,
    )


def _mon(
    ctx: Context[CephStorageSpec], conf: parts.Config, keys: parts.Config, known: Step, *, after: tuple[Step, ...]
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
            parts.volume(config.STATE, "ceph"),
            kube.folder("record", known.objects[0]["metadata"]["name"], RECORD),
        ),
        memory="96Mi",
        cpu="20m",
    )
    wanted = kube.settings(ctx.spec, spec)
    return parts.members(
        ctx,
        "mon",
        _template(ctx, "mon", main, conf, wanted),
        service=ctx.name("mons"),
        ports={"v2": config.V2},
        replicas=spec.replicas,
        storage=spec,
        settings=wanted,
        condition="Monitors",
        path="spec.monitors",
        after=after,
    )


def _mgr(ctx: Context[CephStorageSpec], conf: parts.Config, keys: parts.Config, *, after: tuple[Step, ...]) -> Step:
    """The manager: statistics, placement groups, and what deletes trash. Ceph serves for a while without it."""
    main = _container(ctx, "mgr", conf, keys, mounts=kube.scratch(config.STATE), memory="256Mi", cpu="20m")
    wanted = kube.settings(ctx.spec)
    template = _template(ctx, "mgr", main, conf, wanted)
    template = kube.placed(template, wanted, kube.selector(ctx, "mgr"), several=False, replaceable=True)
    # Two of one name would push each other out for ever.
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
        mounts=(parts.volume(config.STATE, "ceph"),),
        memory=f"{mebibytes(spec.memory)}Mi",
        cpu="50m",
    )
    wanted = kube.settings(ctx.spec, spec)
    return parts.members(
        ctx,
        "osd",
        _template(ctx, "osd", main, conf, wanted, grace=60),
        service=ctx.name("osds"),
        ports={"v2": 6800},
        replicas=spec.replicas,
        storage=spec,
        settings=wanted,
        condition="OSDs",
        path="spec.osds",
        after=after,
    )


def _template(
    ctx: Context[CephStorageSpec],
    kind: str,
    main: kube.Container,
    conf: parts.Config,
    wanted: PodSettings,
    *,
    grace: int = 30,
) -> Object:
    return kube.pod(ctx, kind, main, wanted=wanted, annotations={kube.CONFIG_DIGEST: conf.digest}, grace=grace)
