"""What failed jobs leave to read."""

from __future__ import annotations

import msgspec

from ..kube import last_log
from .kinds import POD
from .store import Cached
from .world import World

_LINES = 10


async def last_words(world: World, job: Cached) -> str:
    """The last lines a failed job's pods wrote; empty when no pod is left. Raises Transient."""
    query = {"labelSelector": f"job-name={job.meta.name}"}
    listed = msgspec.json.decode(await world.client.page(POD, job.meta.namespace, query))
    logs: list[tuple[str, str]] = []
    for pod in listed.get("items") or ():
        status = pod.get("status") or {}
        containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        for container in containers:
            ended = (container.get("state") or {}).get("terminated") or {}
            if ended.get("exitCode") and ended.get("message"):
                logs.append((ended.get("finishedAt") or "", last_log(ended["message"], len(containers))))
    return "\n".join(max(logs, default=("", ""))[1].splitlines()[-_LINES:])
