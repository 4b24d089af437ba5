"""One after the other: whose turn it is among workloads that are to replace their pods.

All at once, programs would start at the same time on the same nodes, and a mistake in what they have in common would
reach all of them before anybody sees it. So those of a resource take turns, and come after those of the resources that
it refers to: Nova after Keystone, both after MariaDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ..kube import rolling
from ..plan import Object, Step, key
from .kinds import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind
from .store import Cached, Store

PATIENCE = timedelta(minutes=5)
"""A roll-out that takes longer is stuck, on a node that is gone for example, and holds nobody up."""
_BLOCKING = (DEPLOYMENT, STATEFUL_SET)
"""What is waited for. A DaemonSet waits itself, but may have a pod on a node that does not come back for days."""
_NAMES = frozenset(kind.handle for kind in _BLOCKING)

Since = dict[str, tuple[int | None, datetime]]
"""When a roll-out was first seen, by uid of the workload and with its generation."""


_SOON = 0.5
"""Seconds after which a resource looks again at one that it requires and that is pending."""


@dataclass(frozen=True)
class Required:
    """A resource that another one refers to and requires."""

    name: str
    """Kind/name."""
    pending: bool
    """It is queued for reconciliation, or has workloads that wait to replace their pods."""
    workloads: Iterable[tuple[Kind, Cached]]


class Turns:
    """The workloads of one resource during one pass. `seen` are its children as they were when the pass began, in
    `stores` they are as it has written them, `replaces` says whether a workload is to have new pods, and `required`
    what it comes after.
    """

    def __init__(
        self,
        seen: Iterable[tuple[Kind, Cached]],
        stores: Mapping[Kind, Store],
        since: Since,
        now: datetime,
        replaces: Callable[[Object], bool],
        required: Callable[[], Iterable[Required]] = tuple,
    ) -> None:
        self._workloads = {
            (kind.handle, child.meta.name): (stores[kind], child.meta.namespace)
            for kind, child in seen
            if kind in {*_BLOCKING, DAEMON_SET}
        }
        self._since, self._now, self._replaces, self._required = since, now, replaces, required
        self.again: float | None = None
        """Seconds after which it may be somebody's turn though nothing tells so; set where a step was held."""
        for kind, name in self._workloads:
            if kind in _NAMES and (held := self._live(kind, name)):
                # Since when it is rolled out, whoever asks later.
                self._patience(held)

    def before(self, step: Step) -> str:
        """What has to be rolled out before this step, as Kind/name; empty where it is its turn."""
        for wanted in step.objects:
            mine = self._live(*key(wanted))
            # One that is on its way already must be free to take another one.
            if mine is None or not self._replaces(wanted) or rolling(mine.decode()):
                continue
            if other := self._other(mine) or self._other_required():
                return other
        return ""

    def _live(self, kind: str, name: str) -> Cached | None:
        store, namespace = self._workloads.get((kind, name), (None, ""))
        return store.get(namespace, name) if store else None

    def _other(self, mine: Cached) -> str:
        for kind, name in self._workloads:
            held = self._live(kind, name) if kind in _NAMES else None
            if held and held.meta.uid != mine.meta.uid and self._is_waited_for(held):
                return f"{kind}/{name}"
        return ""

    def _other_required(self) -> str:
        required = [*self._required()]
        for kind, held in (workload for each in required for workload in each.workloads):
            if kind in _BLOCKING and self._is_waited_for(held):
                return f"{kind.handle}/{held.meta.name}"
        if pending := [each.name for each in required if each.pending]:
            self._look_again(_SOON)
            return pending[0]
        return ""

    def _is_waited_for(self, held: Cached) -> bool:
        if (left := self._patience(held)) <= 0:
            return False
        self._look_again(left)
        return True

    def _look_again(self, after: float) -> None:
        self.again = after if self.again is None else min(self.again, after)

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
