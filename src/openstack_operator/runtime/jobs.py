"""Messages with which jobs end."""

from __future__ import annotations

import msgspec

from ..kube import REPORTS, failure, has_succeeded, last_log
from ..plan import Object
from .kinds import POD
from .store import Cached
from .world import World

_LINES = 10


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
