"""OpenStackBackupSchedule: backups at the times of a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from typing import Any

from ... import kube, parts
from ...api.units import seconds
from ...parts.schedules import last_time, next_time, time_zone
from ...plan import READY, Context, Group, Object, Plan, SpecError, State, Step, Verdict, failed, waiting
from ...plan.times import valid_time
from . import archives, databases, delegated, record, schedule_retention, single_archive
from .model import BACKUP, OF_SCHEDULE, OpenStackBackupScheduleSpec
from .pods import parameters
from .repository import repository
from .schedule_record import Backup, History, backup_name, backups, history, newest_verified
from .verification import STAGE as VERIFIED

_ARCHIVES, _FIRST, _VERIFIED = "archives", "firstRecoverable", "lastVerified"
"""Fields of the record."""
PASSWORD = "PasswordKeptOutside"  # noqa: S105  (a condition)


def needs_databases(ctx: Context[OpenStackBackupScheduleSpec]) -> bool:
    """Return True if the next plan needs the databases, or the image of a server."""
    return ctx.spec.archive or schedule_retention.needs_image(ctx, history(ctx))


def plan(ctx: Context[OpenStackBackupScheduleSpec]) -> Plan:
    """Return everything that a schedule consists of; published: nothing."""
    spec, zone = ctx.spec, _zone(ctx)
    existing, past = backups(ctx), history(ctx)
    active = next((each for each in existing if not each.is_over(ctx.now)), None)
    past, new = _begin(ctx, past, active, zone)
    verified = newest_verified(ctx, past.stored.get(_VERIFIED))
    is_usable = not spec.verify or bool(past.success and verified.get("name") == past.success.name)
    retention = schedule_retention.removal(ctx, past, is_usable=is_usable)
    past = retention.history
    resources = [_resource(ctx, name, None) for name in new]
    resources += [_resource(ctx, each.name, each.live) for each in _remaining(ctx, existing)]
    archived = _archived(ctx, past)
    first_recoverable = _first_recoverable(past, archived, retention.first_recoverable or retention.oldest)
    past = replace(
        past, stored={**past.stored, _ARCHIVES: archived.state, _FIRST: first_recoverable, _VERIFIED: verified}
    )
    runs = [*retention.runs, *archived.runs]
    logins = [repository(ctx), *schedule_retention.login(ctx)]
    config = [*logins, parameters(ctx, runs), *archived.doors, *parts.policies(ctx)]
    steps = Step(name="Backups", objects=tuple(resources), verdict=_verdict(ctx, past, existing, zone))
    remover = Step(
        name="Retention",
        objects=retention.jobs(ctx),
        after=tuple(config),
        verdict=retention.verdict,
    )
    programs = [replace(step, after=tuple(config)) for step in archived.steps]
    programs = programs or [Step(name="Archive", verdict=waiting("waits for a MariaDB"))]
    following = None if spec.suspend else next_time(spec.schedule, past.last, zone)
    active_names = new or ([active.name] if active else [])
    return Plan(
        Group("Config", config),
        steps,
        *([Group("Archive", programs)] if spec.archive else []),
        *([Step(name=VERIFIED, verdict=_verified(existing, past, verified))] if spec.verify else []),
        remover,
        # A backup whose time is on record was created.
        record.step(ctx, past.dump(), after=(steps,)),
        wake=min(filter(None, (following, _late_at(ctx, past, zone), archived.wake)), default=None),
        details={
            "lastScheduleTime": record.stamp(past.last) if past.last > past.since else None,
            "nextScheduleTime": record.stamp(following) if following else None,
            "lastSuccessfulTime": record.stamp(past.success.completed) if past.success else None,
            "lastBackup": past.success.name if past.success else None,
            "active": active_names[0] if active_names else None,
            "firstRecoverableTime": first_recoverable,
            # Without a backup, the archive alone restores nothing.
            "lastRecoverableTime": record.stamp(archived.recoverable)
            if first_recoverable and archived.recoverable
            else None,
            "backups": retention.backups,
        },
        extra_conditions={PASSWORD: _password(spec)},
    )


def _zone(ctx: Context[OpenStackBackupScheduleSpec]) -> tzinfo:
    """Return the time zone. Raises SpecError if there is none of the name, or if no date fits the schedule."""
    try:
        zone = time_zone(ctx.spec.time_zone)
    except ValueError as error:
        raise SpecError("spec.timeZone", str(error)) from None
    try:
        next_time(ctx.spec.schedule, ctx.now, zone)
    except ValueError as error:
        text = f"{ctx.spec.schedule!r} is not a schedule: {error}; write cron fields such as '0 1 * * *'"
        raise SpecError("spec.schedule", text) from None
    return zone


def _begin(
    ctx: Context[OpenStackBackupScheduleSpec], past: History, active: Backup | None, zone: tzinfo
) -> tuple[History, list[str]]:
    """Return the history with the newest time that has come, and the name of the backup that begins, if one does."""
    spec = ctx.spec
    at = last_time(spec.schedule, ctx.now, zone)
    if spec.suspend or at <= past.last:
        return past, []
    limit = spec.starting_deadline_seconds
    if active:
        reason = f"the backup of {_text(at)} was left out, since {active.name} still ran"
    elif limit is not None and ctx.now > at + timedelta(seconds=limit):
        reason = f"the backup of {_text(at)} was left out, since the operator could not start it within {limit} s"
    elif (BACKUP.handle, name := backup_name(ctx, at)) in ctx.children:
        reason = f"the backup of {_text(at)} was left out, since {name} exists, which a user made; delete it"
    else:
        return replace(past, last=at, left_out=""), [name]
    return replace(past, last=at, left_out=reason), []


def _archived(ctx: Context[OpenStackBackupScheduleSpec], past: History) -> archives.Archives:
    """Return the archives that the spec asks for."""
    state = past.stored.get(_ARCHIVES)
    state = state if isinstance(state, dict) and all(isinstance(each, dict) for each in state.values()) else {}
    if not ctx.spec.archive:
        return archives.Archives()
    if refusal := single_archive.refusal(ctx):
        # What it has archived before has no changes of meanwhile.
        return archives.Archives(steps=[Step(name="Archive", verdict=refusal)], wake=ctx.now + archives.SOON)
    everything = ctx.facts.get("databases", ())
    facts = [fact for fact in everything if fact["workloads"]]
    sources = [databases.own_database(ctx, fact) for fact in facts if databases.is_published(fact)]
    late = [fact["name"] for fact in facts if not databases.is_published(fact)]
    archived = archives.archives(ctx, sources, ctx.facts.get("reports", {}), state, late)
    names = [fact["name"] for fact in everything if delegated.resource_of(fact)]
    refusals = [Step(name=f"Archive {name}", verdict=_no_archive(name)) for name in names]
    return replace(archived, steps=[*archived.steps, *refusals], is_whole=False) if names else archived


def _no_archive(name: str) -> Verdict:
    """Return the verdict on the archive of a MariaDB that mariadb-operator runs."""
    text = f"{delegated.OPERATOR} runs MariaDB/{name}, so that its changes are not archived"
    advice = "set spec.archive to false, and restore to a backup"
    return failed(f"{text}; {advice}", "NotSupported", serves=False)


def _first_recoverable(past: History, archived: archives.Archives, oldest: datetime | None) -> str | None:
    """Return the first second that a restore reaches: the end of the first backup beside the archive that still exists,
    by `oldest` as of the last removal; None before there is one.
    """
    since, earlier = archived.since(), valid_time(past.stored.get(_FIRST))
    # One that began before the archive has data of before it.
    success = past.success if past.success and since and past.success.at >= since else None
    end = earlier if earlier and since and earlier >= since else success.completed if success else None
    return record.stamp(max(end, oldest or end)) if end else None


def _resource(ctx: Context[OpenStackBackupScheduleSpec], name: str, live: Object | None) -> Object:
    """Return an OpenStackBackup. The spec of one that exists stays as it is, but that it is verified."""
    storage = ctx.spec.repository.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    include = ctx.spec.include.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    verify = {"verify": True} if ctx.spec.verify else {}
    spec: Any = (
        {**live["spec"], **verify}
        if live
        else {"repository": storage, **({"include": include} if include else {}), **verify}
    )
    backup = kube.obj(ctx, BACKUP.kind, name, BACKUP.api_version, spec=spec)
    return kube.annotated(backup, {OF_SCHEDULE: ctx.owner})


def _remaining(ctx: Context[OpenStackBackupScheduleSpec], existing: Sequence[Backup]) -> list[Backup]:
    """Return the backups whose resources stay. Others leave their backup in the repository."""
    spec = ctx.spec
    active = [each for each in existing if not each.is_over(ctx.now)]
    active += [each for each in existing if each.awaits_verification]
    usable = [each for each in existing if each.completed and each not in active]
    complete = usable[: spec.successful_backups_history_limit]
    unsuccessful = [each for each in existing if each.has_failed][: spec.failed_backups_history_limit]
    return [*active, *complete, *unsuccessful]


def _verdict(
    ctx: Context[OpenStackBackupScheduleSpec], past: History, existing: Sequence[Backup], zone: tzinfo
) -> Verdict:
    """Return the verdict on the newest backup: whether it is as new as it should be, and if not, why."""
    spec, success = ctx.spec, past.success
    newest = next((each for each in existing if not each.completed), None)
    unfinished = newest if newest and (success is None or newest.at > success.at) else None
    age = f"the newest one, {success.name}, is of {_text(success.at)}" if success else "there is none yet"
    if unfinished and unfinished.verdict.state is State.FAILED:
        return failed(f"{unfinished.verdict.message}; {age}", "BackupFailed", serves=False)
    due = last_time(spec.schedule, ctx.now - seconds(spec.deadline), zone)
    if not spec.suspend and due > past.since and (success is None or success.at < due):
        missing = f"no backup of {_text(due)} or later is complete, {spec.deadline} after that time; {age}"
        cause = unfinished.verdict.message if unfinished else past.left_out
        return failed("; ".join(filter(None, (missing, cause))), "BackupLate", serves=False)
    if spec.suspend:
        return Verdict(State.READY, f"spec.suspend is true: no backup is started; {age}")
    return Verdict(State.READY, past.left_out)


def _verified(existing: Sequence[Backup], past: History, verified: Mapping[str, Any]) -> Verdict:
    """Return the verdict on the newest backup that was verified, or that could not be."""
    if past.success is None:
        # As for BackupsReady, a new schedule is not late.
        return Verdict(State.READY, "there is no backup yet that could be verified")
    for backup in existing:
        if backup.completed and backup.has_stalled and not backup.verified:
            text = f"the newest backup cannot be restored: {backup.verdict.message}"
            return failed(text, "NotVerified", serves=False)
        if backup.verified:
            break
    if at := valid_time(verified.get("at")):
        return Verdict(State.READY, f"{verified.get('name')} was restored and used at {_text(at)}")
    return waiting("waits for a backup that is complete")


def _late_at(ctx: Context[OpenStackBackupScheduleSpec], past: History, zone: tzinfo) -> datetime | None:
    """Return the next time at which a backup may be late."""
    spec = ctx.spec
    if spec.suspend:
        return None
    limit = seconds(spec.deadline)
    return next_time(spec.schedule, max(past.since, ctx.now - limit), zone) + limit


def _password(spec: OpenStackBackupScheduleSpec) -> Verdict:
    """Return the condition that asks the user for a copy of what opens the repository."""
    if spec.password_kept_outside:
        return READY
    ref = spec.repository.password_ref
    text = f"without {ref.key!r} of Secret {ref.name!r}, which is lost with the cluster, no backup can be read"
    return waiting(f"{text}; store a copy elsewhere, then set spec.passwordKeptOutside to true", "NotConfirmed")


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
