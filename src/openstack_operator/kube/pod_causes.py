"""A cause for which pods do not start, and how long Kubernetes may need to heal it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..plan import Object
from .pod_facts import LONG_AGO, parse_time, pod_on_node, unready_since
from .pod_reasons import CONFIGURATION, CRASH_LOOP, IMAGE_PULL, OUT_OF_MEMORY, PROBE, REFUSED, START

STALLED_AFTER = timedelta(minutes=5)
"""Patience with a cause that may heal by itself (a registry that is away, a node that comes back). Helm and Flux wait
five minutes, too, and a rollout that takes longer blocks nothing."""
UNHEALTHY_STALLED_AFTER = timedelta(minutes=10)
"""The same for pods that run and are not ready: a startup probe lasts up to ten minutes."""
STALLED_SOON_AFTER = timedelta(minutes=1)
"""The same for what only a change heals, a Secret, a quota or a StorageClass, where that may be on its way."""
USUAL_START = timedelta(seconds=30)
"""Patience with a probe that fails after the start of a container, until a condition says so."""
USUAL_END = timedelta(seconds=30)
"""Patience with a pod that ends, until a condition says so."""
SETTLE = timedelta(seconds=2)
"""Patience with what Kubernetes often refuses once and takes at its next try, until a condition says so."""

_MOST_TELLING = (REFUSED, CONFIGURATION, IMAGE_PULL, START, OUT_OF_MEMORY, CRASH_LOOP)
"""Reasons that say what is wrong, the most exact first. A program that crashes or does not start answers no probe
either.
"""

Warnings = Callable[[str, str, str], Sequence[Object]]
"""Warning Events about an object (kind, name, uid), each with `reason`, `message`, `first` and `last`."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A reason for which one pod, or pods that are not made, cannot be ready."""

    reason: str
    """Empty for what is as it should be, and is waited for."""
    text: str
    """The sentence after the name of the pod."""
    since: datetime
    stalls: timedelta | None = STALLED_AFTER
    """Time in which it may heal by itself; None is unlimited."""
    shown_at: datetime | None = None
    """From then on it is worth a word; None is at once."""
    pod: str = ""
    """Name and node of the pod; empty for pods that were not made."""

    def stalled_at(self) -> datetime | None:
        """Return when the cause counts as one that does not heal by itself; None for never."""
        return None if self.stalls is None else self.since + self.stalls


def cause_of(pod: Object, reason: str, text: str, stalls: timedelta, shown_at: datetime | None = None) -> Cause:
    """Return a cause that has existed for as long as the pod has not been ready."""
    since, name = unready_since(pod), pod_on_node(pod)
    return Cause(reason=reason, text=text, since=since, stalls=stalls, shown_at=shown_at, pod=name)


def explains_most(cause: Cause) -> int:
    """Return the order of a cause: those that say most first, then probes, and pods that only end last."""
    if cause.reason in _MOST_TELLING:
        return _MOST_TELLING.index(cause.reason)
    return len(_MOST_TELLING) + (cause.reason == PROBE) + 2 * (not cause.reason)


def with_reasons(events: Iterable[Object], reasons: set[str]) -> list[Object]:
    """Return the Events that have one of the reasons."""
    return [event for event in events if event["reason"] in reasons]


def latest(events: Iterable[Object]) -> Object | None:
    """Return the Event that was seen last."""
    return max(events, key=last_seen, default=None)


def last_seen(event: Object) -> datetime:
    """Return the time at which an Event was last seen."""
    return parse_time(event["last"], LONG_AGO)


def first_seen(event: Object) -> datetime:
    """Return the time at which an Event was first seen."""
    return parse_time(event["first"], LONG_AGO)
