"""OpenStackRestore: the cloud of a backup, made again in an empty namespace; or single schemas of one that runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from ... import kube, parts, pki
from ...api.units import seconds
from ...plan import READY, Context, Group, Object, Plan, Served, SpecError, Step, Verdict, failed, major, waiting
from ...plan.times import valid_time
from . import allocations, contents, images, networks, pools, record, schemas
from .databases import restore_run
from .model import OpenStackRestoreSpec
from .pods import Image, Run, job_steps, parameters, with_results
from .rebuilt import rebuilt_manifest, rebuilt_object
from .repository import repository

_PORT = 8443
_COMPONENT = "contents"
_CONTENTS, _MANIFEST = "contents.json.gz", "manifest.json"
_STAGES = ("Volumes", "Databases", "Images", "Secrets", "Pools", "Resources")
_LABELS = {"databases": "Database", "networks": "Network", "images": "Images"}
"""Names of steps, by the list of the manifest."""
_LIFE = timedelta(days=7)
_RETRY = timedelta(seconds=2)


def needs_databases(ctx: Context[OpenStackRestoreSpec]) -> bool:
    """Return True if the restore changes databases of the namespace, and has not ended."""
    return bool(ctx.spec.only) and record.of_plan(ctx, "ConfigMap", "end") is None


def served(ctx: Context[OpenStackRestoreSpec]) -> Served | None:
    """Return where the operator reads the backup; None once it has, and before there is a pod that serves it."""
    channel = ctx.secret("channel")
    if not channel or record.of_plan(ctx, "Secret", "contents") or not ctx.pods:
        return None
    url = f"https://{ctx.host(ctx.name(_COMPONENT))}:{_PORT}/contents"
    return Served(url, channel["ca.crt"], channel["token"])


def plan(ctx: Context[OpenStackRestoreSpec]) -> Plan:
    """Return everything that a restore consists of, and what it makes again; published: nothing."""
    ended = record.of_plan(ctx, "ConfigMap", "end")
    stored = record.stored(ctx)
    if ended and valid_time(ended.get("data", {}).get("at")) and stored.get("began"):
        steps = [record.step(ctx, stored), _end(ctx, ended["data"]["at"])]
        before = record.stages(("Config", "Reader", "Contents", *_stages(ctx)), READY)
        return Plan(*before, Group("Record", steps), details=_details(ctx, stored, ended))
    if ctx.spec.only:
        schemas.require_confirmation(ctx)
    stored = {"began": record.stamp(ctx.now), **stored}
    storage = repository(ctx)
    backup = _backup(ctx)
    if backup is None:
        return _reading(ctx, storage, stored)
    uid = _uid(ctx)
    if not uid:
        later = record.stages((*_stages(ctx), "Record"), waiting("waits for the contents"))
        return Plan(Group("Config", [storage]), *record.stages(("Reader",), READY), backup.step, *later)
    if ctx.spec.only:
        return _restoring_schemas(ctx, storage, backup, stored, uid)
    return _restoring(ctx, storage, backup, stored, uid)


def _stages(ctx: Context[OpenStackRestoreSpec]) -> Sequence[str]:
    """Return the stages that come once the operator has read the backup."""
    return schemas.STAGES if ctx.spec.only else _STAGES


def _uid(ctx: Context[OpenStackRestoreSpec]) -> str:
    """Return the identity of this restore, by which a run knows what an earlier one of it left; empty at first."""
    live: Object = record.of_plan(ctx, "Secret", "contents") or {}
    owners = live.get("metadata", {}).get("ownerReferences") or ()
    return next((str(owner.get("uid")) for owner in owners if owner.get("controller")), "")


@dataclass(frozen=True, kw_only=True)
class _Backup:
    """A backup as its repository has it."""

    manifest: Mapping[str, Any]
    objects: Sequence[Object]
    step: Step


def _backup(ctx: Context[OpenStackRestoreSpec]) -> _Backup | None:
    """Return the backup; None until the operator has read it. Raises SpecError for one that it cannot restore."""
    name, values = ctx.name("contents"), dict(ctx.secret("contents"))
    if values and record.of_plan(ctx, "Secret", "contents"):
        content, manifest = _unpacked(values)
    elif ctx.facts.get("contents"):
        content, manifest = ctx.facts["contents"], ctx.facts["manifest"]
        data = gzip.compress(json.dumps(content, sort_keys=True).encode(), mtime=0)
        values = {_CONTENTS: contents.text_of(data), _MANIFEST: json.dumps(manifest, sort_keys=True)}
    else:
        return None
    try:
        objects = [rebuilt_object(ctx, obj) for obj in contents.load(content)]
        manifest = rebuilt_manifest(manifest)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SpecError("spec.backup", f"the operator cannot read the backup: {error!r}; use another one") from None
    secret = kube.secret(ctx, name, values)
    return _Backup(manifest=manifest, objects=objects, step=Step(name="Contents", objects=(secret,), guarded=True))


def _unpacked(values: Mapping[str, str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the contents and the manifest in the Secret of a restore. Raises SpecError if it was changed."""
    try:
        return contents.unpack(contents.bytes_of(values[_CONTENTS])), json.loads(values[_MANIFEST])
    except (ValueError, LookupError) as error:
        text = f"the Secret with the contents of the backup was changed ({error}); create another restore"
        raise SpecError("metadata.name", text) from None


def _reading(ctx: Context[OpenStackRestoreSpec], storage: Step, stored: Mapping[str, Any]) -> Plan:
    """Return the steps of a pod that serves the backup to the operator."""
    channel = _channel(ctx)
    run = _reader(ctx)
    inputs = parameters(ctx, [run])
    policies = parts.policies(ctx)
    service = kube.service(ctx, ctx.name(_COMPONENT), {"https": _PORT}, kube.selector(ctx, _COMPONENT), headless=True)
    job = Step(name="Reader", objects=(service, run.job(ctx)), after=(channel, storage, inputs, *policies))
    later = waiting("waits for the reader")
    recorded = [record.step(ctx, stored), Step(name="End", verdict=later), *_late(ctx, stored, ["Contents"])]
    return Plan(
        Group("Config", [channel, storage, inputs, *policies]),
        job,
        *record.stages(("Contents", *_stages(ctx)), later),
        Group("Record", recorded),
        wake=ctx.now + _RETRY,
    )


def _reader(ctx: Context[OpenStackRestoreSpec]) -> Run:
    return Run(
        component=_COMPONENT,
        program="contents",
        parameters={
            "backup": ctx.spec.backup or "",
            "cloud": ctx.spec.cloud or ctx.namespace,
            "until": ctx.spec.point_in_time or "",
        },
        image=Image(entry=ctx.release["mariadb"]),
        settings=kube.settings(ctx.spec),
        mounts=(kube.folder("channel", ctx.name("channel"), "/etc/backup/channel"),),
        ports={"https": _PORT},
        deadline=900,
    )


def _channel(ctx: Context[OpenStackRestoreSpec]) -> Step:
    """Return Secret `<owner>-channel`: by what the operator and the reader know each other."""
    values = ctx.secret("channel")
    if (
        not values
        or pki.read_error(pki.Pair(values.get("tls.key", ""), values.get("tls.crt", "")))
        or (pki.ends(values["tls.crt"]) < ctx.now + _LIFE / 7)
    ):
        authority = pki.authority(ctx.draw(), f"{ctx.owner} of {ctx.namespace}", ctx.now, life=_LIFE)
        host = ctx.host(ctx.name(_COMPONENT))
        request = pki.Request(common=ctx.owner, names=frozenset({host}), life=_LIFE)
        pair = pki.certificate(None, request, authority, ctx.draw, ctx.now)
        values = {"ca.crt": authority.cert, "tls.crt": pair.cert, "tls.key": pair.key, "token": ctx.draw()}
    secret = kube.remembered(kube.secret(ctx, ctx.name("channel"), values))
    return Step(name="Channel", objects=(secret,), guarded=True)


def _restoring(
    ctx: Context[OpenStackRestoreSpec], storage: Step, backup: _Backup, stored: Mapping[str, Any], uid: str
) -> Plan:
    """Return the steps that fill volumes, and then write Secrets and resources."""
    manifest = backup.manifest
    stored = {
        **stored,
        "backup": manifest["backup"],
        "backupCompleted": manifest["taken"],
        "poolNames": pools.described(manifest["pools"]),
    }
    runs = _runs(ctx, manifest, uid)
    rest: dict[str, dict[str, Run]] = {}
    for part, all_of_part in runs.items():
        stored, rest[part] = with_results(ctx, stored, all_of_part, part)
    pool_runs = pools.restore_runs(ctx, manifest["pools"])
    stored, pools_rest = with_results(ctx, stored, pool_runs, pools.AFTER)
    inputs = parameters(ctx, [run for each in (*rest.values(), pools_rest) for run in each.values()])
    policies = (*parts.policies(ctx), *pools.doors(ctx, [each["pool"] for each in manifest["pools"]]))
    before = (storage, inputs, *policies, backup.step)
    claims = Step(
        name="Volumes",
        objects=tuple(kube.handed_over(entry["claim"]) for part in runs for entry in manifest[part]),
        after=before,
    )
    # A volume that is filled is never filled again: its server writes to it by then.
    jobs = {part: job_steps(ctx, _LABELS[part], runs[part], rest[part], (*before, claims)) for part in runs}
    recorded = record.step(ctx, stored)
    unfinished = [f"{_LABELS[part]} {name}" for part in rest for name in rest[part]]
    late = _late(ctx, stored, [*unfinished, *(f"Pool {name}" for name in pools_rest)])
    if any(rest.values()):
        # A server must not start on a volume that a run without a known result may still fill.
        later = record.stages(("Secrets", "Pools", "Resources"), waiting("waits for the volumes"))
        end: tuple[Step, ...] = ()
    else:
        secrets = Step(
            name="Secrets",
            objects=(*_of(backup.objects, secrets=True), *_marks(ctx, manifest, stored)),
            after=(recorded,),
        )
        resources = Step(name="Resources", objects=_of(backup.objects, secrets=False), after=(secrets,))
        # Beside the resources: one of them may make the Ceph, and the Secret with the login to it.
        pool_steps = pools.restore_steps(ctx, manifest["pools"], pool_runs, pools_rest, (*before, secrets))
        later = [secrets, Group("Pools", pool_steps), resources]
        end = (_end(ctx, record.stamp(ctx.now), after=(resources, *pool_steps)),)
    return Plan(
        Group("Config", [storage, inputs, *policies]),
        *record.stages(("Reader",), READY),
        backup.step,
        claims,
        Group("Databases", [*jobs["databases"], *jobs["networks"]]),
        Group("Images", jobs["images"] or record.stages(["No images"], READY)),
        Group("Record", [recorded, *late]),
        *later,
        *([Group("Record", end)] if end else []),
        # No watch tells of what the cloud's own resources report.
        wake=ctx.now + _RETRY,
        details=_details(ctx, stored, None),
    )


def _restoring_schemas(
    ctx: Context[OpenStackRestoreSpec], storage: Step, backup: _Backup, stored: Mapping[str, Any], uid: str
) -> Plan:
    """Return the steps that give schemas of a backup their places in a cloud that runs."""
    manifest = backup.manifest
    stored = {**stored, "backup": manifest["backup"], "backupCompleted": manifest["taken"]}
    entry = schemas.entry_of(ctx, manifest)
    image, archive = _image(ctx, entry), _archive(ctx, entry)
    place = schemas.target(ctx, entry["name"])
    if isinstance(place, Verdict):
        steps = [Step(name=stage, verdict=place) for stage in schemas.STAGES]
        before = (*record.stages(("Reader",), READY), backup.step)
        last = Group("Record", [record.step(ctx, stored), *_late(ctx, stored, [f"Schemas {entry['name']}"])])
        return Plan(Group("Config", [storage]), *before, *steps, last, wake=ctx.now + _RETRY)
    runs = {entry["name"]: schemas.run(ctx, entry, image, archive, uid, place)}
    stored, unfinished = with_results(ctx, stored, runs)
    inputs = parameters(ctx, [*unfinished.values()])
    policies = (*parts.policies(ctx), Step(name="Doors", objects=(place.database.door(ctx),)))
    # A job that runs stays while the server is away for a moment.
    server = Step(name="Server", verdict=place.verdict if unfinished else READY)
    jobs = job_steps(ctx, "Schemas", runs, unfinished, (storage, inputs, *policies, backup.step, server))
    recorded = record.step(ctx, stored)
    end = () if unfinished else (_end(ctx, record.stamp(ctx.now), after=(recorded,)),)
    return Plan(
        Group("Config", [storage, inputs, *policies]),
        *record.stages(("Reader",), READY),
        backup.step,
        Group("Databases", [server, *jobs]),
        Group("Record", [recorded, *_late(ctx, stored, [f"Schemas {name}" for name in unfinished]), *end]),
        wake=ctx.now + _RETRY,
        details=_details(ctx, stored, None),
    )


def _late(ctx: Context[OpenStackRestoreSpec], stored: Mapping[str, Any], unfinished: Sequence[str]) -> tuple[Step, ...]:
    """Return a step that fails once the restore takes longer than its deadline; none in time."""
    began = valid_time(stored["began"])
    if began is None or ctx.now < began + seconds(ctx.spec.deadline):
        return ()
    text = f"not done within {ctx.spec.deadline}: {', '.join(unfinished) or 'resources of the cloud, as each one says'}"
    advice = "the restore goes on, and spec.deadline can be raised; delete the OpenStackRestore to end it"
    return (Step(name="Deadline", verdict=failed(f"{text}; {advice}", "TooLate")),)


def _marks(
    ctx: Context[OpenStackRestoreSpec], manifest: Mapping[str, Any], stored: Mapping[str, Any]
) -> tuple[Object, ...]:
    """Return the Secrets by which networks and storages of the cloud know that they are restored."""
    results: Mapping[str, Any] = stored["networks"]
    entries = [entry for entry in manifest["networks"] if entry["name"] in results]
    network_marks = [kube.handed_over(networks.mark(entry, results[entry["name"]])) for entry in entries]
    return (*network_marks, *pools.marks(ctx, manifest["pools"], pools.RESTORING))


def _runs(ctx: Context[OpenStackRestoreSpec], manifest: Mapping[str, Any], uid: str) -> dict[str, dict[str, Run]]:
    """Return the runs that fill volumes, by the list of the manifest and the name in it. Raises SpecError."""
    settings = kube.settings(ctx.spec)
    compared = {
        "images": [snapshot for entry in manifest["images"] for snapshot in entry["snapshots"]],
        "pools": pools.indexes(ctx, manifest["pools"]),
        "networks": networks.stored_files(manifest["networks"]),
    }
    return {
        "databases": {entry["name"]: _run(ctx, entry, compared, uid) for entry in manifest["databases"]},
        "networks": {entry["name"]: networks.restore_run(ctx, entry, settings) for entry in manifest["networks"]},
        "images": {entry["name"]: images.restore_run(ctx, entry, settings) for entry in manifest["images"]},
    }


def _run(
    ctx: Context[OpenStackRestoreSpec],
    entry: Mapping[str, Any],
    compared: Mapping[str, Sequence[Any]],
    uid: str,
) -> Run:
    """Return the run that fills the volume of a database. Raises SpecError if this operator has no server for it."""
    image, archive = _image(ctx, entry), _archive(ctx, entry)
    return restore_run(entry, image, kube.settings(ctx.spec), archive, uid, compared)


def _image(ctx: Context[OpenStackRestoreSpec], entry: Mapping[str, Any]) -> Image:
    """Return the image of a server that reads a database. Raises SpecError if this operator has none."""
    version = ".".join(map(str, major(entry["server"])))
    try:
        image = Image(entry=ctx.release.in_version("mariadb", version))
    except SpecError:
        text = f"release {ctx.release.name} has no server for MariaDB/{entry['name']}, a backup of {entry['server']}"
        raise SpecError("spec.release", f"{text}; choose a release that has MariaDB {version}") from None
    scheduling = {name: entry[name] for name in ("nodeSelector", "tolerations") if entry[name]}
    return replace(image, scheduling=scheduling)


def _archive(ctx: Context[OpenStackRestoreSpec], entry: Mapping[str, Any]) -> Mapping[str, str]:
    """Return what a restore to a second knows of the archive; nothing for one to the backup. Raises SpecError."""
    if not ctx.spec.point_in_time:
        return {}
    if valid_time(ctx.spec.point_in_time) is None:
        raise SpecError("spec.pointInTime", f"there is no time {ctx.spec.point_in_time}")
    if entry["operator"]:
        text = f"{entry['operator']} runs MariaDB/{entry['name']}, whose changes are in no archive; remove pointInTime"
        raise SpecError("spec.pointInTime", text)
    if not entry["gtid"]:
        text = f"the backup of MariaDB/{entry['name']} has no position in a binary log; remove pointInTime"
        raise SpecError("spec.pointInTime", text)
    return {"cloud": ctx.spec.cloud or ctx.namespace, "pointInTime": ctx.spec.point_in_time}


def _of(objects: Sequence[Object], *, secrets: bool) -> tuple[Object, ...]:
    return tuple(kube.handed_over(obj) for obj in objects if (obj["kind"] == "Secret") is secrets)


def _end(ctx: Context[OpenStackRestoreSpec], at: str, *, after: Sequence[Step] = ()) -> Step:
    """Return ConfigMap `<owner>-end`, which exists once the restored cloud was Ready."""
    end = kube.obj(ctx, "ConfigMap", ctx.name("end"), data={"at": at})
    return Step(name="End", objects=(end,), after=tuple(after))


def _positions(stored: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how far each database was restored."""
    results: Mapping[str, Mapping[str, Any]] = stored.get("databases", {})
    return [
        {"name": name, "gtid": result.get("gtid") or None, "changes": result.get("changes")}
        for name, result in results.items()
    ]


def _details(ctx: Context[OpenStackRestoreSpec], stored: Mapping[str, Any], ended: Object | None) -> dict[str, Any]:
    completed = ended["data"]["at"] if ended else None
    return {
        "backup": stored.get("backup"),
        "backupCompleted": stored.get("backupCompleted"),
        "completed": completed,
        "restored": _positions(stored),
        "schemas": schemas.restored_rows(ctx.spec.only, stored),
        "images": images.restored_status(ctx.namespace, stored),
        "pools": pools.restored_rows(ctx.namespace, stored),
        "allocations": allocations.restored_status(ctx.namespace, stored),
        "networks": networks.restored_status(stored),
        "duration": record.duration(stored["began"], completed) if completed else None,
    }
