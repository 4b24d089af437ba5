"""OpenStackBackup: one backup of the cloud in a namespace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from ... import kube, parts
from ...plan import READY, Context, Group, Plan, SpecError, Step, Verdict, failed, waiting
from ...plan.times import valid_time
from . import contents, databases, images, networks, pools, record, verification
from .databases import Database
from .delegated import DelegatedDatabase
from .images import Images
from .model import OF_SCHEDULE, OpenStackBackupSpec
from .networks import Northbound
from .pods import Run, job_steps, parameters, with_results
from .pools import Pools
from .repository import repository

LEFT_OUT = ("OpenStackBackup", "OpenStackRestore")
"""Kinds that are no part of a cloud."""
_CONTENTS, _DATABASES, _NETWORKS, _IMAGES = "contents.json.gz", "databases.json", "networks.json", "images.json"
_POOLS = "pools.json"
_MISSING = "missing"
_MANIFEST = "manifest"
_LONGEST = timedelta(days=1)
_BEFORE, _MANIFEST_STAGE = ("Contents", "Config"), "Manifest"
_STAGES = (*_BEFORE, "Databases", "Images", _MANIFEST_STAGE)
_NOT_INCLUDED = (
    "images in Swift and S3",
    "images, volumes and disks in a Ceph that no CephStorage describes",
    "volumes of other backends, and disks of servers on nodes",
    "backups that Cinder made",
    "databases of Ceph and etcd",
)


def needs_contents(ctx: Context[OpenStackBackupSpec]) -> bool:
    """Return True until the operator has read what the backup is to hold, and while it is verified: with the images
    that the cloud has then.
    """
    stored = record.stored(ctx)
    if stored.get("completed"):
        return ctx.spec.verify and not stored.get("verified")
    return record.of_plan(ctx, "Secret", "contents") is None


def plan(ctx: Context[OpenStackBackupSpec]) -> Plan:
    """Return everything that a backup consists of; published: nothing."""
    stored = record.stored(ctx)
    if stored.get("completed"):
        return _after_completion(ctx, stored)
    if late := _too_late(ctx, stored):
        # Without its jobs: one that ends later would make a backup of parts that do not fit.
        before, after = (
            record.stages(_BEFORE, READY),
            record.stages(["Images", _MANIFEST_STAGE], waiting("waits for the databases")),
        )
        return Plan(*before, Step(name="Databases", verdict=late), *after, record.step(ctx, stored))
    collected = _collected(ctx)
    if isinstance(collected, Verdict):
        contents_step = Step(name=_BEFORE[0], verdict=collected)
        verified = [verification.STAGE] if ctx.spec.verify else []
        later = record.stages((*_STAGES[2:], *verified, "Record"), waiting("waits for the contents"))
        return Plan(contents_step, Group("Config", [repository(ctx), *parts.policies(ctx)]), *later)
    for database in collected.delegated:
        stored = database.attempted(ctx, stored)
    storage_image = collected.databases[0].image
    runs = {
        images.BEFORE: {each.name: each.run(ctx, storage_image, is_last=False) for each in collected.images},
        pools.BEFORE: collected.pools.runs(ctx, storage_image, is_last=False),
        "databases": {each.name: each.run(ctx, stored) for each in collected.databases},
        "networks": {each.name: each.run(ctx, storage_image) for each in collected.networks},
        images.AFTER: {each.name: each.run(ctx, storage_image, is_last=True) for each in collected.images},
        pools.AFTER: collected.pools.runs(ctx, storage_image, is_last=True),
    }
    rest: dict[str, dict[str, Run]] = {}
    for part, all_of_part in runs.items():
        stored, rest[part] = with_results(ctx, stored, all_of_part, part)
    unfinished = [run for each in rest.values() for run in each.values()]
    manifest = None
    if not unfinished:
        stored, last_runs = with_results(ctx, stored, {_MANIFEST: _manifest(ctx, stored, collected)}, _MANIFEST)
        manifest = last_runs.get(_MANIFEST)
        if end := stored.get(_MANIFEST, {}).get(_MANIFEST):
            stored |= {"completed": end.get("taken") or record.stamp(ctx.now), "snapshot": end.get("snapshot", "")}
    storage = repository(ctx)
    inputs = parameters(ctx, [*unfinished, *([manifest] if manifest else [])])
    policies = (*parts.policies(ctx), *_doors(ctx, collected))
    before = (collected.step, storage, inputs, *policies)

    def jobs(label: str, name: str, after: Sequence[Step]) -> list[Step]:
        return job_steps(ctx, label, runs[name], rest[name], (*before, *after))

    # An image of which a row says that it is there was stored before, or is there afterwards, also if a user deletes
    # it meanwhile.
    earlier_images = [*jobs("Earlier images", images.BEFORE, ()), *jobs("Earlier pool", pools.BEFORE, ())]
    delegated = [each for each in collected.delegated if each.name in rest["databases"]]
    copies = [each.copy(ctx, stored, [*before, *earlier_images]) for each in delegated]
    database_jobs = [
        *copies,
        *jobs("Database", "databases", [*earlier_images, *copies]),
        *jobs("Network", "networks", earlier_images),
    ]
    later_images = [*jobs("Images", images.AFTER, database_jobs), *jobs("Pool", pools.AFTER, database_jobs)]
    last = record.stages([verification.STAGE], waiting("waits for the manifest")) if ctx.spec.verify else []
    end_step = Step(
        name=_MANIFEST_STAGE,
        objects=(kube.reporting(manifest.job(ctx)),) if manifest else (),
        after=(*database_jobs, *later_images),
        verdict=None if manifest else waiting("waits for the databases"),
    )
    return Plan(
        collected.step,
        Group("Config", [storage, inputs, *policies]),
        Group("Images", earlier_images),
        Group("Databases", database_jobs),
        Group("Images", later_images or record.stages(["No images"], READY)),
        end_step,
        *last,
        record.step(ctx, stored),
        details=_details(stored),
    )


@dataclass(frozen=True, kw_only=True)
class _Collected:
    """Parts of a backup, from the first look at the cloud on."""

    step: Step
    databases: list[Database | DelegatedDatabase] = field(default_factory=list[Database | DelegatedDatabase])
    networks: list[Northbound] = field(default_factory=list[Northbound])
    images: list[Images] = field(default_factory=list[Images])
    pools: Pools = field(default_factory=Pools)
    data: bytes = b""
    missing: list[str] = field(default_factory=list[str])

    @property
    def delegated(self) -> list[DelegatedDatabase]:
        """Databases that mariadb-operator copies."""
        return [each for each in self.databases if isinstance(each, DelegatedDatabase)]


def _collected(ctx: Context[OpenStackBackupSpec]) -> _Collected | Verdict:
    """Return what the backup holds; a verdict while the cloud cannot be backed up. Raises SpecError for one that is
    too large.
    """
    name = ctx.name("contents")
    if record.of_plan(ctx, "Secret", "contents"):
        stored = ctx.secret("contents")
        secret = kube.secret(ctx, name, stored)
        try:
            sources = databases.load(stored[_DATABASES])
        except (LookupError, TypeError, ValueError):
            return failed("an earlier version of the operator began this backup; create another one", "NotSupported")
        return _Collected(
            step=Step(name="Contents", objects=(secret,), guarded=True),
            databases=sources,
            networks=networks.load(stored.get(_NETWORKS, "[]")),
            images=images.load(stored.get(_IMAGES, "[]")),
            pools=Pools.load(stored[_POOLS]) if _POOLS in stored else Pools(),
            data=contents.bytes_of(stored[_CONTENTS]),
            missing=stored[_MISSING].splitlines(),
        )
    if not ctx.facts.get("objects"):
        return failed("there is no cloud in this namespace; create this resource beside one", "NoCloud")
    late = [*databases.not_ready(ctx.facts["databases"]), *networks.not_ready(ctx.facts["networks"])]
    included = {"images": ctx.spec.include.images, "volumes": ctx.spec.include.volumes, "vms": ctx.spec.include.disks}
    late += images.not_ready(ctx.facts["images"]) if ctx.spec.include.images else ()
    late += pools.not_ready(ctx.facts["storages"]) if any(included.values()) else ()
    if late:
        return waiting(f"waiting for a ready member of {', '.join(sorted(late))}")
    sources, foreign = databases.observed(ctx, ctx.facts["databases"])
    network_sources, foreign_networks = networks.observed(ctx.facts["networks"])
    image_sources, left_out = images.observed(ctx.facts["images"], is_included=ctx.spec.include.images)
    pool_sources, pools_left_out = _pool_sources(ctx, included)
    if not sources:
        return failed("there is no MariaDB in this namespace that this operator or mariadb-operator runs", "NoDatabase")
    try:
        is_delegated = any(isinstance(each, DelegatedDatabase) for each in sources)
        number = contents.DELEGATED_FORMAT if is_delegated else contents.FORMAT
        data = contents.dump(ctx.facts["objects"], number)
    except ValueError as error:
        raise SpecError("metadata.namespace", str(error)) from None
    missing = [*foreign, *foreign_networks, *left_out, *pools_left_out, *_NOT_INCLUDED]
    values = {
        _CONTENTS: contents.text_of(data),
        _DATABASES: databases.dump(sources),
        _NETWORKS: networks.dump(network_sources),
        _IMAGES: images.dump(image_sources),
        _POOLS: pool_sources.dump(),
        _MISSING: "\n".join(missing),
    }
    step = Step(name="Contents", objects=(kube.secret(ctx, name, values),), guarded=True)
    return _Collected(
        step=step,
        databases=sources,
        networks=network_sources,
        images=image_sources,
        pools=pool_sources,
        data=data,
        missing=missing,
    )


def _count(ctx: Context[OpenStackBackupSpec], data: bytes) -> int:
    try:
        return contents.count(data)
    except (ValueError, LookupError, TypeError):
        text = f"Secret {ctx.name('contents')} was changed while the backup ran; create another backup"
        raise SpecError("metadata.name", text) from None


def _pool_sources(ctx: Context[OpenStackBackupSpec], included: Mapping[str, bool]) -> tuple[Pools, list[str]]:
    sources, left_out = pools.observed(ctx.facts["storages"], included)
    return replace(sources, incremental=ctx.spec.include.incremental), left_out


def _after_completion(ctx: Context[OpenStackBackupSpec], stored: Mapping[str, Any]) -> Plan:
    """Return the steps that verify the backup, if the spec says so and it was not done; else its record alone."""
    before = record.stages(_STAGES, READY)
    if not ctx.spec.verify:
        return Plan(*before, record.step(ctx, stored), details=_details(stored))
    if stored.get("verified"):
        steps = record.stages([verification.STAGE], verification.verdict(stored))
        return Plan(*before, *steps, record.step(ctx, stored), details=_details(stored))
    programs = verification.images(ctx)
    if programs is None:
        steps = record.stages([verification.STAGE], waiting("waiting for a MariaDB, whose image restores the backup"))
        return Plan(*before, *steps, record.step(ctx, stored), details=_details(stored))
    stored, runs = with_results(ctx, stored, verification.runs(ctx, *programs), verification.FIELD)
    if not runs:
        stored = {"verified": record.stamp(ctx.now), **stored}
        steps = record.stages([verification.STAGE], verification.verdict(stored))
        return Plan(*before, *steps, record.step(ctx, stored), details=_details(stored))
    storage, inputs, policies = repository(ctx), parameters(ctx, [*runs.values()]), parts.policies(ctx)
    jobs = tuple(kube.reporting(run.job(ctx)) for run in runs.values())
    rehearsal = Step(name=verification.STAGE, objects=jobs, after=(storage, inputs, *policies))
    config = Group("Config", [storage, inputs, *policies])
    return Plan(before[0], config, *before[2:], rehearsal, record.step(ctx, stored), details=_details(stored))


def _too_late(ctx: Context[OpenStackBackupSpec], stored: Mapping[str, Any]) -> Verdict | None:
    """Return a verdict on a backup whose Secrets would be much older than its data; None in time."""
    began = valid_time(stored.get("began"))
    if began is None or ctx.now < began + _LONGEST:
        return None
    text = "databases and images were not stored within a day, so the Secrets read before may not fit them"
    return failed(f"{text}; create another OpenStackBackup", "TooLate")


def _doors(ctx: Context[OpenStackBackupSpec], collected: _Collected) -> tuple[Step, ...]:
    """Return the step of the NetworkPolicies: databases that are closed accept the pods of this backup."""
    pods = {"podSelector": {"matchLabels": kube.pods_of(ctx.kind, ctx.owner)}}
    policies = [policy for each in collected.databases if (policy := each.door(ctx))]
    policies += [each.door(ctx, [pods]) for each in collected.networks]
    return (Step(name="Doors", objects=tuple(policies)), *pools.doors(ctx, collected.pools.pools))


def _manifest(ctx: Context[OpenStackBackupSpec], stored: dict[str, Any], collected: _Collected) -> Run:
    """Return the run that makes the backup whole."""
    results: Mapping[str, Any] = stored["databases"]
    network_results: Mapping[str, Any] = stored["networks"]
    missing = [*collected.missing, *pools.without_snapshots(collected.pools.pools, stored)]
    stored |= {"objects": _count(ctx, collected.data), "missing": missing}
    entries = [{**results[each.name], **each.entry()} for each in collected.databases]
    manifest = {
        "format": contents.DELEGATED_FORMAT if collected.delegated else contents.FORMAT,
        "cloud": ctx.namespace,
        "backup": ctx.owner,
        "began": stored["began"],
        "databases": entries,
        "networks": [each.entry(network_results[each.name]) for each in collected.networks],
        "images": [each.entry(stored) for each in collected.images],
        "pools": [each.entry(stored) for each in collected.pools.pools],
        "missing": missing,
    }
    folder = kube.folder("contents", ctx.name("contents"), "/etc/backup/contents", files={_CONTENTS: _CONTENTS})
    return Run(
        component="manifest",
        program="manifest",
        parameters={
            "backup": ctx.owner,
            "cloud": ctx.namespace,
            "schedule": ctx.annotations.get(OF_SCHEDULE, ""),
            "manifest": manifest,
        },
        image=collected.databases[0].image,
        mounts=(folder,),
    )


def _details(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the status."""
    databases_, networks_ = stored.get("databases", {}), stored.get("networks", {})
    results: list[Mapping[str, Any]] = [
        *({"kind": "MariaDB", "name": name, **result} for name, result in databases_.items()),
        *(
            {"kind": networks.KIND, "name": name, "server": result.get("schema"), **result}
            for name, result in networks_.items()
        ),
    ]
    completed = stored.get("completed")
    everything = [*results, *stored.get(images.AFTER, {}).values(), *stored.get(pools.AFTER, {}).values()]
    rows = [
        {
            "kind": result["kind"],
            "name": result["name"],
            "size": record.quantity(result.get("bytes")),
            "stored": record.quantity(result.get("stored")),
            "gtid": result.get("gtid") or None,
            "server": result.get("server"),
        }
        for result in results
    ]
    return {
        "completed": completed,
        "duration": record.duration(stored["began"], completed) if completed else None,
        "size": record.quantity(sum(result.get("bytes") or 0 for result in everything)) if completed else None,
        "verified": stored.get("verified"),
        "restoreDuration": verification.duration(stored),
        "snapshot": stored.get("snapshot"),
        "databases": rows,
        "images": images.backup_rows(stored),
        "pools": pools.backup_rows(stored),
        "objects": stored.get("objects"),
        "notIncluded": stored.get("missing", []),
    }
