"""Pods that are being deleted, and take longer than usual."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from ..plan import Object
from .objects import ENDING
from .pod_causes import USUAL_END, Cause
from .pod_facts import LONG_AGO, parse_time, phase, pod_on_node


def ending_cause(workload: Mapping[str, Any], pod: Object, now: datetime) -> Cause | None:
    """Return the cause of a pod that ends, and for which another one waits: until when, and what its program waits for
    (annotation `ENDING` of the workload). None for a pod that has ended.
    """
    meta = pod["metadata"]
    if phase(pod) in {"Succeeded", "Failed"}:
        return None
    last = parse_time(meta["deletionTimestamp"], LONG_AGO)
    since = last - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    if now < last:
        hint = (workload["metadata"].get("annotations") or {}).get(ENDING, "")
        node = (pod.get("spec") or {}).get("nodeName", "")
        waits = f"; {hint.replace('NODE', node)}" if hint else ""
        text, shown_at = f"is stopping, until {last:%H:%M} UTC at the latest{waits}", since + USUAL_END
    else:
        text, shown_at = f"should have stopped by {last:%H:%M} UTC: check its node", last + USUAL_END
    return Cause(reason="", text=text, since=since, stalls=None, shown_at=shown_at, pod=pod_on_node(pod))
