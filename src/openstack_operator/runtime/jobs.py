"""What failed jobs leave to read."""

from __future__ import annotations

import msgspec

from ..kube import mask_passwords
from .kinds import POD
from .store import Cached
from .world import World

_LOG_LINES, _LOG_BYTES = 10, 1024


async def last_words(world: World, job: Cached) -> str:
    """The last lines a failed job's pods wrote; empty when no pod is left. Raises Transient."""
    query = {"labelSelector": f"job-name={job.meta.name}"}
    listed = msgspec.json.decode(await world.client.page(POD, job.meta.namespace, query))
    found: list[tuple[str, str]] = []
    for pod in listed.get("items") or ():
        status = pod.get("status") or {}
        for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
            ended = (container.get("state") or {}).get("terminated") or {}
            if ended.get("exitCode") and ended.get("message"):
                found.append((ended.get("finishedAt") or "", ended["message"]))
    text = mask_passwords(max(found, default=("", ""))[1].strip())
    return "\n".join(text.splitlines()[-_LOG_LINES:])[-_LOG_BYTES:]
