"""Messages with which jobs end."""

from __future__ import annotations

from datetime import datetime

import msgspec

from ...kube import REPORTS, RETRY_PAUSE, failure, has_succeeded, last_log, next_try
from ...plan import Object
from ..cache.entries import Cached
from ..cache.world import World
from ..kubernetes.kinds import POD

_LINES = 10


def retry_pause(
    uid: str, live: Object, now: datetime, steady: datetime, failed_since: dict[str, datetime]
) -> float | None:
    """Return the seconds until a failed Job is to be created again; None for any other. They count by the clock of the
    Job's controller; if that is ahead of ours, from the time on since which this process knows of the failure.
    """
    if (retry_at := next_try(live)) is None:
        return None
    known_since = failed_since.setdefault(uid, steady)
    return max(0.0, min(retry_at - now, known_since + RETRY_PAUSE - steady).total_seconds())


def has_message(job: Cached, live: Object) -> bool:
    """Return True if a job has failed, or reports its success."""
    return bool(failure(live)) or (job.meta.annotations.get(REPORTS) == "true" and has_succeeded(live))


async def message(world: World, job: Cached, live: Object) -> str:
    """Return the last lines that the pods of a job that has ended wrote, or the message of its success; empty without
    one, and when no pod is left. Raises Transient.
    """
    query = {"labelSelector": f"job-name={job.meta.name}"}
    page = msgspec.json.decode(await world.client.page(POD, job.meta.namespace, query))
    logs: list[tuple[str, str]] = []
    for pod in page.get("items") or ():
        status = pod.get("status") or {}
        containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        for container in containers:
            terminated = (container.get("state") or {}).get("terminated") or {}
            if bool(terminated.get("exitCode")) != has_succeeded(live) and terminated.get("message"):
                logs.append((terminated.get("finishedAt") or "", last_log(terminated["message"], len(containers))))
    return "\n".join(max(logs, default=("", ""))[1].splitlines()[-_LINES:])
