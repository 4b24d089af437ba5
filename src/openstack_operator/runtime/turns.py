"""One after the other: whose turn it is among the workloads of a resource that replace their pods.

All at once, the programs of a service would start at the same time on the same nodes, and a mistake in what they have
in common would reach all of them before anybody sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from ..kube import rolling
from ..plan import Object, Step, key
from .kinds import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind
from .store import Cached, Store

PATIENCE = timedelta(minutes=5)
"""A roll-out that takes longer is stuck, on a node that is gone for example, and holds nobody up."""
_BLOCKING = (DEPLOYMENT, STATEFUL_SET)
"""What is waited for. A DaemonSet waits itself, but may have a pod on a node that does not come back for days."""

Since = dict[str, tuple[int | None, datetime]]
"""When a roll-out was first seen, by uid of the workload and with its generation."""


class Turns:
    """The workloads of one resource during one pass. `seen` are its children as they were when the pass began, in
    `stores` they are as it has written them, and `replaces` says whether a workload is to have new pods.
    """

    def __init__(
        self,
        seen: Iterable[tuple[Kind, Cached]],
        stores: Mapping[Kind, Store],
        since: Since,
        now: datetime,
        replaces: Callable[[Object], bool],
    ) -> None:
        self._workloads = {
            (kind.handle, child.meta.name): (stores[kind], child.meta.namespace)
            for kind, child in seen
            if kind in {*_BLOCKING, DAEMON_SET}
        }
        self._since, self._now, self._replaces = since, now, replaces
        self.again: float | None = None
        """Seconds after which somebody's patience is over; set where a step was held."""

    def before(self, step: Step) -> str:
        """What has to be rolled out before this step, as Kind/name; empty where it is its turn."""
        for wanted in step.objects:
            mine = self._live(*key(wanted))
            # One that is on its way already must be free to take another one.
            if mine and (other := self._other(mine)) and not rolling(mine.decode()) and self._replaces(wanted):
                return other
        return ""

    def _live(self, kind: str, name: str) -> Cached | None:
        store, namespace = self._workloads.get((kind, name), (None, ""))
        return store.get(namespace, name) if store else None

    def _other(self, mine: Cached) -> str:
        for kind, name in self._workloads:
            held = self._live(kind, name) if kind in {blocking.handle for blocking in _BLOCKING} else None
            if held is None or held.meta.uid == mine.meta.uid:
                continue
            if (left := self._patience(held)) > 0:
                self.again = left if self.again is None else min(self.again, left)
                return f"{kind}/{name}"
        return ""

    def _patience(self, held: Cached) -> float:
        """Seconds for which others wait for this one; 0 where it is not being rolled out."""
        meta = held.meta
        if not rolling(held.decode()):
            self._since.pop(meta.uid, None)
            return 0
        generation, since = self._since.get(meta.uid, (None, self._now))
        if generation != meta.generation:
            since = self._now
        self._since[meta.uid] = meta.generation, since
        return (since + PATIENCE - self._now).total_seconds()
