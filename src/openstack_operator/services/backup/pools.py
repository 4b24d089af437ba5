"""RBD images in Ceph in a backup: images, volumes and disks of servers, in the pools of each CephStorage."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ... import kube
from ...api import PodSettings
from ...parts.connect.ceph import name_uuid
from ...plan import READY, Context, Object, ReleaseEntry, Step
from . import record
from .pods import Image, Program, Run, job_steps
from .report import listed, names

KIND = "CephStorage"
BEFORE, AFTER = "poolsBefore", "pools"
"""Fields of the record: results of the runs before and after those of the databases."""
USES = ("images", "volumes", "vms")
_STATUS = "status"
"""Component of the pod with Ceph's programs."""
_DATA = {"images": "images", "volumes": "volumes", "vms": "disks of servers"}
_DELETIONS = {
    "images": "openstack image delete",
    "volumes": "openstack volume delete",
    "vms": "openstack server delete",
}
RESTORING, RESTORED = "restoring", "restored"
"""Ends of the names of the Secrets that say which restore fills the pools of a CephStorage, and which did."""
_SETUP = "/etc/ceph-storage"
"""Folder of ceph.conf and of the keys in the status pod."""
_FIELDS = {"images": "images", "volumes": "volumes", "vms": "disks"}
"""Fields of `include`."""
_RESOURCE = re.compile(r"[a-z0-9][-a-z0-9.]{0,252}")
_POOL, _USER = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]*"), re.compile(r"client\.[A-Za-z0-9][-A-Za-z0-9_.]*")
_SHARED = "/var/lib/backup"
"""Folder with the socket by which the programs of a pod talk."""
_MEMORY = "512Mi"
"""restic has an index of all data in memory."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A pool of a CephStorage for one use."""

    storage: str
    use: str
    pool: str
    """Name of the pool in Ceph."""
    user: str
    """`client.<id>`"""
    client: str
    """Secret with ceph.conf and the key of the user."""
    monitors: Sequence[str] = ()
    """Services of the monitors of a Ceph of ours: they come back with other addresses."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Pool:
        """Return what an entry of a manifest says. Raises LookupError or TypeError if it lacks something, ValueError
        for words that no pool and no user has.
        """
        fields = {name: values[name] for name in ("storage", "use", "pool", "user", "client")}
        if not all(isinstance(text, str) for text in fields.values()):
            raise TypeError(f"pool {fields}")
        patterns = {"storage": _RESOURCE, "client": _RESOURCE, "pool": _POOL, "user": _USER}
        if fields["use"] not in USES or not all(patterns[name].fullmatch(fields[name]) for name in patterns):
            raise ValueError(f"pool {fields['pool']!r} of {fields['user']!r}")
        monitors = [str(name) for name in values.get("monitors", ())]
        if not all(_RESOURCE.fullmatch(name) for name in monitors):
            raise ValueError(f"monitors {monitors}")
        return cls(**fields, monitors=monitors)

    @property
    def name(self) -> str:
        """Name of it in the backup."""
        return f"{self.storage}-{self.use}"

    def run(self, ctx: Context[Any], storage: Image, programs: Image, *, incremental: bool, is_last: bool) -> Run:
        """Return a run that stores it, or what changed in it, with restic in the image `storage` and Ceph's in
        `programs`; the last one is after the databases were read, the other one before.
        """
        parameters = {**self._parameters(ctx), "backup": ctx.owner, "cloud": ctx.namespace}
        # Nova cannot delete the disk of a server that has a snapshot.
        parameters |= {"incremental": incremental and self.use != "vms"}
        return self._run("pool", "pool" if is_last else "pool-before", parameters, storage, programs.entry)

    def restore_run(self, ctx: Context[Any], index: str, settings: PodSettings) -> Run:
        """Return the run that restores what the pool has not, from the snapshot with the index."""
        parameters = {**self._parameters(ctx), "index": index}
        storage = Image(entry=ctx.release["mariadb"])
        return self._run("pool_restore", "restore-pool", parameters, storage, ctx.release["ceph-status"], settings)

    def _parameters(self, ctx: Context[Any]) -> dict[str, Any]:
        return {
            "folder": _SHARED,
            "id": name_uuid(ctx.kind, ctx.namespace, ctx.owner),
            "use": self.use,
            "pool": self.pool,
            "user": self.user,
        }

    def _run(
        self,
        program: str,
        component: str,
        parameters: Mapping[str, Any],
        storage: Image,
        programs: ReleaseEntry,
        settings: PodSettings | None = None,
    ) -> Run:
        # As the user of the other program: they share a socket.
        entry = ReleaseEntry(programs.image, storage.entry.uid, storage.entry.gid)
        shared = kube.scratch(_SHARED)
        return Run(
            component=f"{component}-{self.name}",
            program=program,
            parameters=parameters,
            image=storage,
            settings=settings or PodSettings(),
            mounts=shared,
            companion=Program(
                name="rbd", entry=entry, mounts=(*shared, kube.folder("ceph", self.client, "/etc/backup/ceph"))
            ),
            memory=_MEMORY,
        )

    def entry(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return its entry in the manifest, with the results of its runs in a record."""
        return {**stored[AFTER][self.name], **vars(self)}


@dataclass(frozen=True, kw_only=True)
class Pools:
    """The pools that a backup holds, and the image with Ceph's programs of each CephStorage."""

    pools: Sequence[Pool] = ()
    images: Mapping[str, Image] | None = None
    incremental: bool = False

    def runs(self, ctx: Context[Any], storage: Image, *, is_last: bool) -> dict[str, Run]:
        """Return a run for each pool, by its name in the backup."""
        images = self.images or {}
        how = {"incremental": self.incremental, "is_last": is_last}
        return {each.name: each.run(ctx, storage, images[each.storage], **how) for each in self.pools}

    def dump(self) -> str:
        """Return JSON for `load`."""
        images = {name: image.dump() for name, image in (self.images or {}).items()}
        pools = [vars(each) for each in self.pools]
        return json.dumps({"pools": pools, "images": images, "incremental": self.incremental}, sort_keys=True)

    @classmethod
    def load(cls, text: str) -> Pools:
        """Return what `dump` returned. Raises KeyError or TypeError for other values."""
        values = json.loads(text)
        images = {name: Image.load(image) for name, image in values["images"].items()}
        pools = [Pool(**each) for each in values["pools"]]
        return cls(pools=pools, images=images, incremental=values.get("incremental", False))


def observed(facts: Sequence[Mapping[str, Any]], included: Mapping[str, bool]) -> tuple[Pools, list[str]]:
    """Return the pools that a backup holds, by the uses that are included, and what it does not hold, as the status has
    it.
    """
    pools: list[Pool] = []
    left_out: list[str] = []
    images: dict[str, Image] = {}
    for fact in facts:
        for use, pool in _pools(fact):
            if included[use]:
                pools.append(pool)
            else:
                text = f"{_DATA[use]} in its pool {pool.pool}, since spec.include.{_FIELDS[use]} is false"
                left_out.append(f"{KIND}/{fact['name']}: {text}")
        if deployment := _deployment(fact):
            images[fact["name"]] = Image.of(deployment["spec"]["template"]["spec"])
    return Pools(pools=pools, images=images), left_out


def not_ready(facts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield names of storages whose pools cannot be read now."""
    for fact in facts:
        deployment = _deployment(fact)
        if not fact["published"] or not (deployment and kube.judge(deployment).ready):
            yield f"{KIND}/{fact['name']}"


def doors(ctx: Context[Any], sources: Sequence[Pool]) -> tuple[Step, ...]:
    """Return the step of the NetworkPolicies by which the daemons of storages accept connections of these runs; nothing
    without pools.
    """
    pods = {"podSelector": {"matchLabels": kube.pods_of(ctx.kind, ctx.owner)}}
    policies = [
        kube.network_policy(ctx, ctx.name("uses", storage), kube.pods_of(KIND, storage), [{"from": [pods]}])
        for storage in sorted({each.storage for each in sources})
    ]
    return (Step(name="Pools' doors", objects=tuple(policies)),) if policies else ()


def marks(ctx: Context[Any], entries: Sequence[Mapping[str, Any]], part: str) -> list[Object]:
    """Return the Secrets of one of both ends, RESTORING or RESTORED, for each CephStorage: no service uses it between
    the first and the second.
    """
    return [kube.handed_over(_mark(ctx, each, part)) for each in sorted({entry["pool"].storage for entry in entries})]


def _mark(ctx: Context[Any], storage: str, part: str) -> Object:
    labels = {**kube.labels(ctx), **kube.pods_of(KIND, storage)}
    data = {"restore": base64.b64encode(ctx.owner.encode()).decode()}
    metadata = {"name": f"{storage}-{part}", "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def restore_steps(
    ctx: Context[Any],
    entries: Sequence[Mapping[str, Any]],
    runs: Mapping[str, Run],
    rest: Mapping[str, Run],
    after: Sequence[Step],
) -> list[Step]:
    """Return a step for each run that fills a pool, of which `rest` has not ended, and the one that tells each
    CephStorage once all are full.
    """
    jobs = job_steps(ctx, "Pool", runs, rest, after)
    full = () if rest else tuple(marks(ctx, entries, RESTORED))
    return [*jobs, Step(name="Full", objects=full, after=tuple(jobs), verdict=None if full else READY)]


def restore_runs(ctx: Context[Any], entries: Sequence[Mapping[str, Any]]) -> dict[str, Run]:
    """Return the runs that restore pools, by their names in the backup."""
    settings = kube.settings(ctx.spec)
    return {entry["pool"].name: entry["pool"].restore_run(ctx, entry["snapshot"], settings) for entry in entries}


def backup_rows(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the status says of the pools in a backup."""
    before = stored.get(BEFORE, {})
    return [
        {
            "name": name,
            "images": result.get("images"),
            "size": record.quantity(result.get("bytes")),
            "stored": record.quantity((result.get("stored") or 0) + (before.get(name, {}).get("stored") or 0)),
        }
        for name, result in stored.get(AFTER, {}).items()
    ]


def without_snapshots(pools: Sequence[Pool], stored: Mapping[str, Any]) -> list[str]:
    """Return what a backup lacks of pools, as the status has it: snapshots of RBD images."""
    left_out: list[str] = []
    for pool in pools:
        result: Mapping[str, Any] = stored[AFTER][pool.name]
        if lacking := names(result.get("withoutSnapshots"), "images"):
            listed_images = ", ".join(lacking["images"])
            text = f"snapshots of {lacking['count']} RBD images in its pool {pool.pool}"
            left_out.append(
                f"{KIND}/{pool.storage}: {text}; users removed snapshots during each reading: {listed_images}"
            )
    return left_out


def indexes(ctx: Context[Any], entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a program needs to know which RBD images a backup has, and where their monitors are now."""
    pools: list[tuple[Pool, str]] = [(entry["pool"], entry["snapshot"]) for entry in entries]
    return [
        {
            "name": pool.name,
            "use": pool.use,
            "pool": pool.pool,
            "index": snapshot,
            "monitors": [ctx.host(name) for name in pool.monitors],
        }
        for pool, snapshot in pools
    ]


def described(entries: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return each pool, by its name in the backup, for the record."""
    pools: list[Pool] = [entry["pool"] for entry in entries]
    return {each.name: dict(vars(each)) for each in pools}


def restored_rows(namespace: str, stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the status says of the pools of a restore, by its record."""
    reports: dict[str, Any] = {}
    for result in stored.get("databases", {}).values():
        reports |= result["pools"] if isinstance(result.get("pools"), dict) else {}
    results: Mapping[str, Any] = stored.get(AFTER, {})
    return [_restored_row(namespace, stored, name, result, reports.get(name)) for name, result in results.items()]


def _restored_row(
    namespace: str, stored: Mapping[str, Any], name: str, result: Mapping[str, Any], report: Any
) -> dict[str, Any]:
    row = {
        "name": name,
        "images": result.get("images"),
        "existed": result.get("existed"),
        "size": record.quantity(result.get("bytes")),
    }
    try:
        pool = Pool.of(stored["poolNames"][name])
    except (LookupError, TypeError, ValueError):
        # A user may have written the record.
        return row
    # Of a pool that had data, nobody knows here what these are.
    lists: Mapping[str, Any] = report if isinstance(report, dict) and not result.get("existed") else {}
    return {
        **row,
        "withoutData": listed(lists.get("withoutData"), partial(_deletion, _DELETIONS[pool.use])),
        "withoutRow": listed(lists.get("withoutRow"), partial(_removal, namespace, pool)),
        "snapshotsWithoutData": listed(lists.get("snapshotsWithoutData"), _snapshot_deletion),
    }


def _deletion(command: str, names: Sequence[str]) -> str:
    """Return the command that deletes what the names of RBD images identify."""
    return " ".join([command, *(name.removeprefix("volume-").partition("_")[0] for name in names)])


def _snapshot_deletion(names: Sequence[str]) -> str:
    return " ".join(["openstack volume snapshot delete", *(name.removeprefix("snapshot-") for name in names)])


def _removal(namespace: str, pool: Pool, names: Sequence[str]) -> str:
    """Return the command that removes RBD images with their snapshots."""
    rbd = f"rbd -c {_SETUP}/ceph.conf -n {pool.user} -k {_SETUP}/{pool.user}.keyring"
    script = f"for i in {' '.join(names)}; do {rbd} snap purge {pool.pool}/$i; {rbd} rm {pool.pool}/$i; done"
    return f"kubectl exec -n {namespace} deploy/{pool.storage}-{_STATUS} -- sh -c '{script}'"


def _pools(fact: Mapping[str, Any]) -> Iterator[tuple[str, Pool]]:
    """Yield the pools of a storage that has a client for them, by their use."""
    published: Mapping[str, str] = fact["published"]
    for use in USES:
        fields = [published.get(f"{use}{field}", "") for field in ("Pool", "User", "Secret")]
        if all(fields):
            pool, user, secret = fields
            hosts = [host.partition(".") for host in published.get("monitors", "").split(",")]
            # Others have addresses of their own.
            monitors = [name for name, _, _ in hosts if name.startswith(f"{fact['name']}-mon-")]
            yield use, Pool(storage=fact["name"], use=use, pool=pool, user=user, client=secret, monitors=monitors)


def _deployment(fact: Mapping[str, Any]) -> Object | None:
    """Return the Deployment of the status pod."""
    labelled = ((each, each["metadata"].get("labels") or {}) for each in fact["deployments"])
    return next((each for each, labels in labelled if labels.get(kube.COMPONENT) == _STATUS), None)
