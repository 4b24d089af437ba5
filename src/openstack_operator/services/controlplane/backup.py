"""The backup before the last step of an upgrade: after that step, nothing else leads back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ... import kube
from ...parts.connect.remote import API
from ...plan import NAME_LIMIT, READY, CloudResources, Context, Object, State, Step, failed, fitting, progressing
from .model import ControlPlaneSpec

_BACKUP, _SCHEDULE = "OpenStackBackup", "OpenStackBackupSchedule"
_COPIED = ("repository", "include")
"""Fields of a schedule that its backups have, too."""
_CONDITION = "Backup"


def is_wanted(ctx: Context[Any]) -> bool:
    """Return True if the next plan may take a backup, so that it has to know the schedules."""
    return bool(ctx.upgrades_from) and ctx.spec.upgrade.complete and ctx.spec.upgrade.backup


SCHEDULES = CloudResources(is_wanted, (_SCHEDULE,))
"""Resources that say where backups are stored."""


def before_last_step(ctx: Context[ControlPlaneSpec], field: str) -> Step | None:
    """Return the step of the backup that the last step of the upgrade waits for; None if there is nothing to wait for:
    the namespace has no schedule of backups that is in use, or the spec wants none. It has the repository of the first
    schedule by name, and what that one includes. `field` is the path of the field by which a user leaves it out.
    """
    if not is_wanted(ctx):
        return None
    in_use = [each for each in ctx.facts.get("resources", ()) if not (each["spec"].get("suspend") or False)]
    if not in_use:
        return None
    schedule = min(in_use, key=lambda each: str(each["metadata"]["name"]))
    name = _name(ctx, ctx.spec.release)
    live = _live(ctx, name)
    copied = {each: schedule["spec"][each] for each in _COPIED if each in schedule["spec"]}
    if "include" in copied:
        # Users remove it by hand, so no other backup may need it.
        copied["include"] = {name: value for name, value in copied["include"].items() if name != "incremental"}
    spec = live["spec"] if live else {**copied, "verify": True}
    step = Step(name=_CONDITION, objects=(kube.obj(ctx, _BACKUP, name, API, spec=spec),))
    if spec.get("repository") != copied.get("repository") or not spec.get("verify"):
        text = (
            f"{_BACKUP}/{name} is not in the repository of {_SCHEDULE}/{schedule['metadata']['name']}, or not verified"
        )
        return replace(step, objects=(), verdict=failed(f"{text}; delete it", "BackupFailed"))
    verdict = kube.child_verdict(live) if live else progressing(f"{_BACKUP}/{name} is being created")
    if verdict.ready:
        return replace(step, verdict=READY)
    place = f"the repository of {_SCHEDULE}/{schedule['metadata']['name']}"
    text = (
        f"the last step of the upgrade waits for a backup in {place}: {verdict.message}; to go on without one, set"
        f" {field} to false"
    )
    return replace(step, verdict=failed(text, "BackupFailed") if verdict.state is State.FAILED else progressing(text))


def stored_backup(ctx: Context[ControlPlaneSpec]) -> Step | None:
    """Return the step of the backup that was taken before the last step of the upgrade to the release of the spec; None
    if there is none. Its resource stays until the next upgrade, as it is.
    """
    name = _name(ctx, ctx.spec.release)
    live = _live(ctx, name)
    if live is None:
        return None
    return Step(name=_CONDITION, objects=(kube.obj(ctx, _BACKUP, name, API, spec=live["spec"]),), verdict=READY)


def way_back(ctx: Context[ControlPlaneSpec]) -> str:
    """Return the name of the backup that leads back from the release that runs; empty without one."""
    name = _name(ctx, ctx.running_release)
    live = ctx.children.get((_BACKUP, name))
    return name if live and (live.get("status") or {}).get("completed") else ""


def _live(ctx: Context[ControlPlaneSpec], name: str) -> Object | None:
    """Return a backup that exists, and is not being deleted."""
    live = ctx.children.get((_BACKUP, name))
    return None if live is None or live["metadata"].get("deletionTimestamp") else live


def _name(ctx: Context[ControlPlaneSpec], release: str) -> str:
    """Return the name of the backup before the last step of the upgrade to a release."""
    return fitting(f"{ctx.owner}-before-{release.replace('.', '-')}", NAME_LIMIT)
