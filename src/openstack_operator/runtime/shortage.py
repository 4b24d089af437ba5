"""StatefulSets that are short of pods, whose controller has to be asked to make them.

It fails as long as pods of these names are ending, as when a StatefulSet was deleted and made anew; after some twenty
failures within a minute it waits 16 minutes before it tries again (client-go's exponential backoff, of 5 ms to 1000 s).
A StatefulSet that changes is looked at at once.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from ..kube import annotated
from ..plan import Object
from .store import Cached

ASKED = "openstack.k8s.io/asked"
"""Annotation of a StatefulSet: when its controller was last asked to make the pods that are not there."""
PATIENCE = timedelta(seconds=15)
"""For how long a StatefulSet may lack pods before its controller is asked, and asked again."""


def asked(held: Cached, wanted: Object, since: dict[str, datetime], now: datetime) -> tuple[Object, float | None]:
    """The StatefulSet with what asks its controller, if it is time for that, and the seconds after which it may be;
    None for one that has its pods. `since` is when one was first seen to lack any, or last asked for, by uid.
    """
    before = held.meta.annotations.get(ASKED, "")
    kept = annotated(wanted, {ASKED: before}) if before else wanted
    live = held.decode()
    status = live.get("status") or {}
    unseen = status.get("observedGeneration", 0) < (held.meta.generation or 0)
    if not unseen and status.get("replicas", 0) >= live["spec"].get("replicas", 1):
        since.pop(held.meta.uid, None)
        return kept, None
    left = since.setdefault(held.meta.uid, now) + PATIENCE - now
    if left > timedelta(0):
        return kept, left.total_seconds()
    since[held.meta.uid] = now
    return annotated(wanted, {ASKED: now.isoformat(timespec="seconds")}), PATIENCE.total_seconds()
