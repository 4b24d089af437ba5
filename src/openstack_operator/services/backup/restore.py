"""OpenStackRestore: the cloud of a backup, made again in an empty namespace."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from ... import kube, pki
from ...plan import READY, Context, Group, Object, Plan, Served, SpecError, Step, major, waiting
from . import contents, record
from .databases import restore_run
from .model import OpenStackRestoreSpec
from .pods import Image, Run, parameters
from .repository import repository

_PORT = 8443
_COMPONENT = "contents"
_CONTENTS, _MANIFEST = "contents.json.gz", "manifest.json"
_STAGES = ("Volumes", "Databases", "Secrets", "Resources")
_LIFE = timedelta(days=7)
_RETRY = timedelta(seconds=2)


def served(ctx: Context[OpenStackRestoreSpec]) -> Served | None:
    """Return where the operator reads the backup; None once it has, and before there is a pod that serves it."""
    channel = ctx.secret("channel")
    if not channel or ctx.live("Secret", "contents") is not None or not ctx.pods:
        return None
    url = f"https://{ctx.host(ctx.name(_COMPONENT))}:{_PORT}/contents"
    return Served(url, channel["ca.crt"], channel["token"])


def plan(ctx: Context[OpenStackRestoreSpec]) -> Plan:
    """Return everything that a restore consists of, and what it makes again; published: nothing."""
    ended = ctx.live("ConfigMap", "end")
    stored = record.stored(ctx)
    if ended:
        steps = [record.step(ctx, stored), _end(ctx, ended["data"]["at"])]
        before = record.stages(("Config", "Reader", "Contents", *_STAGES), READY)
        return Plan(*before, Group("Record", steps), details=_details(stored, ended))
    storage = repository(ctx)
    backup = _backup(ctx)
    if backup is None:
        return _reading(ctx, storage)
    return _restoring(ctx, storage, backup, stored)


@dataclass(frozen=True, kw_only=True)
class _Backup:
    """A backup as its repository has it."""

    manifest: Mapping[str, Any]
    objects: Sequence[Object]
    step: Step


def _backup(ctx: Context[OpenStackRestoreSpec]) -> _Backup | None:
    """Return the backup; None until the operator has read it. Raises SpecError for one that it cannot restore."""
    name, values = ctx.name("contents"), dict(ctx.secret("contents"))
    if values:
        content = json.loads(gzip.decompress(contents.bytes_of(values[_CONTENTS])))
        manifest: Mapping[str, Any] = json.loads(values[_MANIFEST])
    elif ctx.facts.get("contents"):
        content, manifest = ctx.facts["contents"], ctx.facts["manifest"]
        data = gzip.compress(json.dumps(content, sort_keys=True).encode(), mtime=0)
        values = {_CONTENTS: contents.text_of(data), _MANIFEST: json.dumps(manifest, sort_keys=True)}
    else:
        return None
    try:
        objects = contents.load(content)
        _check(ctx, objects)
        _check_manifest(manifest)
    except (ValueError, LookupError, TypeError) as error:
        raise SpecError("spec.backup", f"the operator cannot read the backup: {error!r}; use another one") from None
    secret = kube.secret(ctx, name, values)
    return _Backup(manifest=manifest, objects=objects, step=Step(name="Contents", objects=(secret,), guarded=True))


def _check(ctx: Context[OpenStackRestoreSpec], objects: Sequence[Object]) -> None:
    """Raise SpecError for objects that no backup of this operator holds."""
    for obj in objects:
        if (obj["apiVersion"], obj["kind"]) in ctx.kinds and (_is_ours(obj) or obj["kind"] == "Secret"):
            continue
        text = f"the backup holds {obj['kind']}/{obj['metadata']['name']} of {obj['apiVersion']}"
        raise SpecError("spec.backup", f"{text}, which this operator does not serve; use the operator that took it")


def _check_manifest(manifest: Mapping[str, Any]) -> None:
    """Raise LookupError, TypeError or ValueError for a manifest that lacks something: others may have written it."""
    for name in ("backup", "taken"):
        if not isinstance(manifest[name], str):
            raise TypeError(name)
    for entry in manifest["databases"]:
        if entry["claim"]["kind"] != "PersistentVolumeClaim" or entry["claim"]["apiVersion"] != "v1":
            raise ValueError(f"claim of {entry['name']}")
        texts = [entry[name] for name in ("name", "snapshot", "server", "gtid")]
        if not all(isinstance(text, str) for text in [*texts, entry["claim"]["metadata"]["name"]]):
            raise TypeError(f"database {entry['name']}")


def _is_ours(obj: Object) -> bool:
    group = str(obj["apiVersion"]).rpartition("/")[0]
    return group == "openstack.k8s.io" or group.endswith("c5c3.io")


def _reading(ctx: Context[OpenStackRestoreSpec], storage: Step) -> Plan:
    """Return the steps of a pod that serves the backup to the operator."""
    channel = _channel(ctx)
    run = _reader(ctx)
    inputs = parameters(ctx, [run])
    service = kube.service(ctx, ctx.name(_COMPONENT), {"https": _PORT}, kube.selector(ctx, _COMPONENT), headless=True)
    job = Step(name="Reader", objects=(service, run.job(ctx)), after=(channel, storage, inputs))
    rest = record.stages(("Contents", *_STAGES, "Record"), waiting("waits for the reader"))
    return Plan(Group("Config", [channel, storage, inputs]), job, *rest, wake=ctx.now + _RETRY)


def _reader(ctx: Context[OpenStackRestoreSpec]) -> Run:
    return Run(
        component=_COMPONENT,
        program="contents",
        parameters={"backup": ctx.spec.backup or "", "cloud": ctx.spec.cloud or ctx.namespace},
        image=Image(entry=ctx.release["mariadb"]),
        settings=kube.settings(ctx.spec),
        mounts=(kube.folder("channel", ctx.name("channel"), "/etc/backup/channel"),),
        ports={"https": _PORT},
        deadline=900,
    )


def _channel(ctx: Context[OpenStackRestoreSpec]) -> Step:
    """Return Secret `<owner>-channel`: by what the operator and the reader know each other."""
    values = ctx.secret("channel")
    if not values:
        authority = pki.authority(ctx.draw(), f"{ctx.owner} of {ctx.namespace}", ctx.now, life=_LIFE)
        host = ctx.host(ctx.name(_COMPONENT))
        request = pki.Request(common=ctx.owner, names=frozenset({host}), life=_LIFE)
        pair = pki.certificate(None, request, authority, ctx.draw, ctx.now)
        values = {"ca.crt": authority.cert, "tls.crt": pair.cert, "tls.key": pair.key, "token": ctx.draw()}
    secret = kube.remembered(kube.secret(ctx, ctx.name("channel"), values))
    return Step(name="Channel", objects=(secret,), guarded=True)


def _restoring(ctx: Context[OpenStackRestoreSpec], storage: Step, backup: _Backup, stored: Mapping[str, Any]) -> Plan:
    """Return the steps that fill volumes, and then write Secrets and resources."""
    manifest = backup.manifest
    stored = {
        "began": record.stamp(ctx.now),
        **stored,
        "backup": manifest["backup"],
        "backupCompleted": manifest["taken"],
    }
    runs = [_run(ctx, entry) for entry in manifest["databases"]]
    inputs = parameters(ctx, runs)
    before = (storage, inputs, backup.step)
    claims = Step(
        name="Volumes",
        objects=tuple(kube.handed_over(entry["claim"]) for entry in manifest["databases"]),
        after=before,
    )
    jobs = [
        Step(name=f"Database {run.component}", objects=(kube.reporting(run.job(ctx)),), after=(*before, claims))
        for run in runs
    ]
    secrets = Step(name="Secrets", objects=_of(backup.objects, secrets=True), after=tuple(jobs))
    resources = Step(name="Resources", objects=_of(backup.objects, secrets=False), after=(secrets,))
    end = _end(ctx, record.stamp(ctx.now), after=(resources,))
    return Plan(
        Group("Config", [storage, inputs]),
        *record.stages(("Reader",), READY),
        backup.step,
        claims,
        Group("Databases", jobs),
        secrets,
        resources,
        Group("Record", [record.step(ctx, stored), end]),
        # No watch tells of what the cloud's own resources report.
        wake=ctx.now + _RETRY,
        details=_details(stored, None),
    )


def _run(ctx: Context[OpenStackRestoreSpec], entry: Mapping[str, Any]) -> Run:
    """Return the run that fills the volume of a database. Raises SpecError if this operator has no server for it."""
    version = ".".join(map(str, major(entry["server"])))
    try:
        image = Image(entry=ctx.release.in_version("mariadb", version))
    except SpecError:
        text = f"release {ctx.release.name} has no server for MariaDB/{entry['name']}, a backup of {entry['server']}"
        raise SpecError("spec.release", f"{text}; choose a release that has MariaDB {version}") from None
    return restore_run(entry, image, kube.settings(ctx.spec))


def _of(objects: Sequence[Object], *, secrets: bool) -> tuple[Object, ...]:
    return tuple(kube.handed_over(obj) for obj in objects if (obj["kind"] == "Secret") is secrets)


def _end(ctx: Context[OpenStackRestoreSpec], at: str, *, after: Sequence[Step] = ()) -> Step:
    """Return ConfigMap `<owner>-end`, which exists once the restored cloud was Ready."""
    end = kube.obj(ctx, "ConfigMap", ctx.name("end"), data={"at": at})
    return Step(name="End", objects=(end,), after=tuple(after))


def _details(stored: Mapping[str, Any], ended: Object | None) -> dict[str, Any]:
    completed = ended["data"]["at"] if ended else None
    return {
        "backup": stored.get("backup"),
        "backupCompleted": stored.get("backupCompleted"),
        "completed": completed,
        "duration": record.duration(stored["began"], completed) if completed else None,
    }
