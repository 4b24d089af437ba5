"""`backup restore`: the cloud of a backup, made again in a namespace without a cloud; or schemas of one that runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ...kube import KIND, conditions
from ...plan import Object
from ...plan.times import time_stamp, valid_time
from ...runtime.kubernetes.client import Client
from ...runtime.kubernetes.kinds import VOLUME_CLAIM
from ..inspection.commands import READY
from ..inspection.session import run, warn
from ..inspection.snapshot import OURS, list_objects, read
from ..inspection.state import subject
from ..kind_index import KINDS
from .commands import Options, create, manifest, new_name, print_manifest
from .following import Follower
from .repositories import Repository, find_repository, get_resource, repository_of
from .state import BACKUP, RESTORE, SCHEDULE, has_failed, recoverable_range, status_of

_NO_CLOUD = (BACKUP, RESTORE)
"""Kinds that are no part of a cloud."""
_DATABASES = f"{OURS},{KIND} in (mariadb, ovnnetwork)"
_MOST = 3
"""Objects that a refusal names."""
_SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_STATUS_PERIOD = timedelta(minutes=1)
"""Time by which the status of a schedule may be behind its archive: it has full minutes while the archive works."""


@dataclass(frozen=True, kw_only=True)
class NewRestore(Options):
    """Options of `restore`."""

    backup: str | None = None
    """Name of a backup; None is the newest, or the newest before `time`."""
    time: str | None = None
    """A second in UTC (RFC 3339); None restores the backup alone."""
    cloud: str | None = None
    """Namespace that the cloud had; None is the same one."""
    only: Sequence[str] = ()
    """Schemas that return to a cloud which runs; none restores a whole cloud."""
    database: str | None = None
    """Name of the MariaDB with these schemas."""
    confirm: str | None = None
    """Name of the namespace whose cloud may be changed."""
    repository_of: str | None = None
    file: str | None = None
    dry_run: bool = False


def restore_cloud(options: NewRestore) -> int:
    """Create a restore. Returns 0 if it was created, or with `wait` once the cloud is Ready, 1 if it failed or is not
    done in time, and 2 if it could not be created.
    """
    return run(options.context, lambda client: _restore(client, options))


async def _restore(client: Client, options: NewRestore) -> int:
    if options.time:
        check_time(options.time, datetime.now(UTC))
    repository = await _repository(client, options)
    place_faults = _schema_faults(options) if options.only else await _cloud_faults(client, options.namespace)
    faults = [*_range_faults(repository, options), *place_faults]
    if faults and not options.dry_run:
        raise LookupError("; ".join(faults))
    for fault in faults:
        warn(fault)
    fields = {
        "cloud": options.cloud,
        "backup": options.backup,
        "pointInTime": options.time,
        "only": list(options.only),
        "database": options.database,
        "confirm": options.confirm,
    }
    spec = {**{name: value for name, value in fields.items() if value}, "repository": repository.spec}
    name = options.name or new_name("restore")
    if options.dry_run:
        print_manifest(manifest(RESTORE, options.namespace, name, spec))
        return READY
    live = await create(client, RESTORE, options.namespace, name, spec, repository)
    if not options.wait:
        print(f"see how it goes: openstack-operator wait osrestore/{name} -n {options.namespace} --timeout 1d")
        return READY
    follower = Follower(
        client=client,
        live=live,
        context=options.context,
        timeout=options.timeout,
        result=_result,
        is_final=_has_failed,
    )
    return await follower.run()


def check_time(text: str, now: datetime) -> None:
    """Raise LookupError for a time that `pointInTime` does not take, or that is still to come."""
    moment = valid_time(text) if _SECOND.fullmatch(text) else None
    if moment is None:
        raise LookupError(f"--time {text}: write a second in UTC, such as {time_stamp(now)}")
    if moment > now:
        raise LookupError(f"--time {text}: this is still to come; times are in UTC, and now it is {time_stamp(now)}")


async def _repository(client: Client, options: NewRestore) -> Repository:
    """Return the repository; without an option that of the backup, if the cluster has it."""
    namespace = options.cloud or options.namespace
    if options.backup and not options.repository_of and not options.file:
        live = await get_resource(client, BACKUP, namespace, options.backup)
        if live is not None:
            return await repository_of(client, live)
    return await find_repository(client, namespace, options.repository_of, options.file)


def _range_faults(repository: Repository, options: NewRestore) -> Sequence[str]:
    """Return why a time cannot be reached, as far as a schedule of the cluster says."""
    moment = valid_time(options.time)
    if moment is None or not repository.schedules:
        return []
    archiving = [each for each in repository.schedules if each["spec"].get("archive")]
    names = ", ".join(map(subject, archiving or repository.schedules))
    ranges = [seconds for each in archiving if (seconds := recoverable_range(each))]
    if not ranges:
        return [f"--time {options.time}: {names} has no archive that a restore can use; restore a backup with --backup"]
    if any(earliest <= moment < latest + _STATUS_PERIOD for earliest, latest in ranges):
        return []
    texts = " or ".join(f"from {time_stamp(earliest)} to {time_stamp(latest)}" for earliest, latest in ranges)
    advice = "to try an earlier archive, apply what --dry-run prints"
    return [f"--time {options.time}: by {names}, a restore can go to a second {texts}; choose one of these; {advice}"]


def _schema_faults(options: NewRestore) -> Sequence[str]:
    """Return why single schemas are not restored."""
    faults: list[str] = []
    if options.cloud:
        faults.append("--cloud: single schemas return to the cloud that the backup is of; remove it")
    if options.confirm != options.namespace:
        schemas = ", ".join(options.only)
        text = f"this replaces the schemas {schemas} of the cloud that runs in {options.namespace!r}"
        faults.append(f"{text}; if you want that, add --confirm {options.namespace}")
    return faults


async def _cloud_faults(client: Client, namespace: str) -> Sequence[str]:
    """Return which cloud a restore would meet. What may not be listed is left to the operator."""
    kinds = [each for each in KINDS if each not in _NO_CLOUD]
    snapshot = await read(client, namespace, kinds, with_workloads=False, with_pods=False)
    refusals = [*snapshot.unreadable]
    claims = await list_objects(client, VOLUME_CLAIM, namespace, {"labelSelector": _DATABASES}, refusals)
    if refusals:
        warn(f"not checked here, but by the operator, since you may not list all: {refusals[0]}")
    # A cloud's own resource says more than its parts.
    resources = sorted(snapshot.resources, key=lambda each: "ownerReferences" in each["metadata"])
    names = [subject(each) for each in (*resources, *claims)]
    if not names:
        return []
    rest = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    text = f"namespace {namespace!r} has {', '.join(names[:_MOST])}{rest}"
    advice = "restore into a namespace without a cloud: name another one with -n"
    if not claims and all(each["kind"] == SCHEDULE.kind for each in resources):
        advice += "; a schedule is part of its cloud: write its manifest into a file for -f, and delete it"
    return [f"{text}; {advice}"]


def _result(live: Object) -> str:
    """Return what was restored; empty before the cloud is Ready."""
    status = status_of(live)
    if not status.get("completed"):
        return ""
    if schemas := status.get("schemas"):
        names = ", ".join(f"{each['name']} ({each['earlier']} has the data of before)" for each in schemas)
        return f"the cloud has these schemas of {status.get('backup')}: {names}"
    text = f"the cloud of {status.get('backup')} is Ready after {status.get('duration')}"
    changes = [
        f"MariaDB/{each['name']} with {each['changes']} changes from the archive"
        for each in status.get("restored") or ()
        if each.get("changes") is not None
    ]
    return ", ".join([text, *changes])


def _has_failed(live: Object) -> bool:
    """Return True for a failure that stays. Parts of a cloud that starts may fail and be tried again."""
    unfinished = conditions(live).get("ResourcesReady", {})
    begins = conditions(live).get("SecretsReady", {}).get("status") == "True"
    return has_failed(live) and not (begins and unfinished.get("reason") != "InvalidSpec")
