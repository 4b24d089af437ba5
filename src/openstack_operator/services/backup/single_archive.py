"""Archive of one schedule in a namespace: servers end the connection of a second program that archives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ... import kube
from ...plan import Context, Verdict, failed, waiting
from .archives import is_archiver
from .model import SCHEDULE, OpenStackBackupScheduleSpec

_LAST = "9999"
"""Time of creation of a resource without one."""


def refusal(ctx: Context[OpenStackBackupScheduleSpec]) -> Verdict | None:
    """Return why this schedule does not archive now; None if it does: if it is the oldest of those that are not
    suspended, or the oldest of all if all are, and no program of another schedule archives.
    """
    siblings = [each for each in ctx.facts.get("siblings", ()) if _claims(each)]
    oldest = min(siblings, key=_rank, default=None)
    if oldest is not None and oldest["name"] != ctx.owner:
        is_older = bool(oldest["spec"].get("suspend")) == ctx.spec.suspend
        reason = "is older" if is_older else "is not suspended"
        return failed(
            f"{SCHEDULE.kind}/{oldest['name']} archives this namespace: its spec.archive is true, too, and it {reason}."
            " Set spec.archive to false in one of the two; backups go on",
            "ArchivedElsewhere",
        )
    deployments = [live for (kind, _), live in ctx.children.items() if kind == "Deployment"]
    if any(is_archiver(live["metadata"]["labels"].get(kube.COMPONENT)) for live in deployments):
        return None
    predecessors = sorted(each["name"] for each in ctx.facts.get("siblings", ()) if _runs(ctx, each))
    if predecessors:
        return waiting(f"waits until the programs of {SCHEDULE.kind}/{predecessors[0]} that archive have ended")
    return None


def _claims(sibling: Mapping[str, Any]) -> bool:
    return not sibling["deleted"] and sibling["spec"].get("archive") is True


def _rank(sibling: Mapping[str, Any]) -> tuple[bool, str, str]:
    return bool(sibling["spec"].get("suspend")), sibling["created"] or _LAST, sibling["name"]


def _runs(ctx: Context[Any], sibling: Mapping[str, Any]) -> bool:
    """Return True if programs of another schedule archive. One that is gone has the name of its label."""
    is_own = sibling["name"] in {ctx.owner, kube.fitting(ctx.owner)}
    return not is_own and any(is_archiver(each) for each in sibling["programs"])
