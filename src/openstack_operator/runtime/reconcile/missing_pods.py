"""StatefulSets that are short of pods, whose controller needs a nudge to make them.

It fails as long as pods of these names are ending, as when a StatefulSet was deleted and created again; after some
twenty failures within a minute it waits 16 minutes before it tries again (client-go's exponential backoff, of 5 ms to
1000 s). A StatefulSet that changes is looked at at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from ...kube import Rollout, annotated
from ...plan import Object
from ..cache.entries import Cached

NUDGED_AT = "openstack.k8s.io/asked"
"""Annotation of a StatefulSet: the last time its controller was nudged to make the pods that are missing."""
PATIENCE = timedelta(seconds=15)
"""Time for which a StatefulSet may lack pods before its controller is nudged, and nudged again."""


def nudge(live: Cached, desired: Object, since: dict[str, datetime], now: datetime) -> tuple[Object, float | None]:
    """Return the StatefulSet with what nudges its controller, if it is time for that, and the seconds after which it
    may be; None for one that has its pods. `since` is when one was first seen to lack any, or last nudged, by uid.
    """
    last_nudge = live.meta.annotations.get(NUDGED_AT, "")
    with_last_nudge = annotated(desired, {NUDGED_AT: last_nudge}) if last_nudge else desired
    rollout = Rollout(live.decode())
    if rollout.is_observed and rollout.existing >= rollout.desired:
        since.pop(live.meta.uid, None)
        return with_last_nudge, None
    remaining = since.setdefault(live.meta.uid, now) + PATIENCE - now
    if remaining > timedelta(0):
        return with_last_nudge, remaining.total_seconds()
    since[live.meta.uid] = now
    return annotated(desired, {NUDGED_AT: now.isoformat(timespec="seconds")}), PATIENCE.total_seconds()
