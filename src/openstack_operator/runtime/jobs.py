"""The logs of failed jobs."""

from __future__ import annotations

import msgspec

from ..kube import last_log
from .kinds import POD
from .store import Cached
from .world import World

_LINES = 10


async def failure_log(world: World, job: Cached) -> str:
    """Return the last lines a failed job's pods wrote; empty when no pod is left. Raises Transient."""
    query = {"labelSelector": f"job-name={job.meta.name}"}
    page = msgspec.json.decode(await world.client.page(POD, job.meta.namespace, query))
    logs: list[tuple[str, str]] = []
    for pod in page.get("items") or ():
        status = pod.get("status") or {}
        containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        for container in containers:
            terminated = (container.get("state") or {}).get("terminated") or {}
            if terminated.get("exitCode") and terminated.get("message"):
                logs.append((terminated.get("finishedAt") or "", last_log(terminated["message"], len(containers))))
    return "\n".join(max(logs, default=("", ""))[1].splitlines()[-_LINES:])
