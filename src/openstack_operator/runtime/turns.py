"""One after the other: whose turn it is among workloads that are to replace their pods.

All at once, programs would start at the same time on the same nodes, and a mistake in what they have in common would
reach all of them before anybody sees it. So those of a namespace take turns, and come after those of the resources that
theirs refers to: Nova after Keystone, both after MariaDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from ..kube import rolling
from ..plan import Object, Step, key
from .kinds import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind
from .store import Cached, Store

PATIENCE = timedelta(minutes=5)
"""A roll-out that takes longer is stuck, on a node that is gone for example, and holds nobody up."""
BLOCKING = (DEPLOYMENT, STATEFUL_SET)
"""What is waited for. A DaemonSet waits itself, but may have a pod on a node that does not come back for days."""
_NAMES = frozenset(kind.handle for kind in BLOCKING)

_SOON = 0.5
"""Seconds after which a resource looks again at one that it requires and that is pending."""
_BESIDE = 1.0
"""Seconds after which it looks again whether the workloads of all others are rolled out: nothing tells it."""
_WRITTEN = timedelta(seconds=5)
"""Until when a workload that may replace its pods is written, and the cluster has told of that."""


class Rollout(NamedTuple):
    """A roll-out that was seen."""

    generation: int | None
    """Of the workload."""
    since: datetime
    """When it was first seen with this generation."""
    began: datetime
    """When it was first seen with any: a change of a workload that is being rolled out changes nothing about this."""


class Begun(NamedTuple):
    """A workload that was last allowed to replace its pods."""

    uid: str
    generation: int
    """The one that it had until then."""
    at: datetime


class RolloutMemory:
    """What is known of roll-outs between passes."""

    def __init__(self) -> None:
        self.seen: dict[str, Rollout] = {}
        """By uid of the workload."""
        self.begun: dict[str, Begun] = {}
        """By namespace."""


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
    `stores` they are as it has written them, `replaces` says whether a workload is to have new pods, `required` what
    it comes after, and `beside` gives the workloads of all other resources in its namespace.
    """

    def __init__(
        self,
        seen: Iterable[tuple[Kind, Cached]],
        stores: Mapping[Kind, Store],
        memory: RolloutMemory,
        now: datetime,
        replaces: Callable[[Object], bool],
        required: Callable[[], Iterable[Required]] = tuple,
        beside: Callable[[], Iterable[tuple[Kind, Cached]]] = tuple,
    ) -> None:
        self._workloads = {
            (kind.handle, child.meta.name): (stores[kind], child.meta.namespace)
            for kind, child in seen
            if kind in {*BLOCKING, DAEMON_SET}
        }
        self._memory, self._now, self._replaces = memory, now, replaces
        self._required, self._beside = required, beside
        self.again: float | None = None
        """Seconds after which it may be somebody's turn though nothing tells so; set where a step was held."""
        for kind, name in self._workloads:
            if kind in _NAMES and (held := self._live(kind, name)):
                # Since when it is rolled out, whoever asks later.
                self._rollout(held)

    def before(self, step: Step) -> str:
        """What has to be rolled out before this step, as Kind/name; empty where it is its turn."""
        for wanted in step.objects:
            mine = self._live(*key(wanted))
            # One that is on its way already must be free to take another one.
            if mine is None or not self._replaces(wanted) or rolling(mine.decode()):
                continue
            if other := self._other(mine) or self._other_required() or self._other_beside(mine):
                return other
            if key(wanted)[0] in _NAMES:
                self._memory.begun[mine.meta.namespace] = Begun(mine.meta.uid, mine.meta.generation, self._now)
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
            if kind in BLOCKING and self._is_waited_for(held):
                return f"{kind.handle}/{held.meta.name}"
        if pending := [each.name for each in required if each.pending]:
            self._look_again(_SOON)
            return pending[0]
        return ""

    def _other_beside(self, mine: Cached) -> str:
        begun = self._memory.begun.get(mine.meta.namespace)
        for kind, held in self._beside():
            if kind in BLOCKING and (self._is_rolled_out_beside(held) or self._is_begun(held, begun)):
                self._look_again(_BESIDE)
                return f"{kind.handle}/{held.meta.name}"
        return ""

    def _is_waited_for(self, held: Cached) -> bool:
        rollout = self._rollout(held)
        if rollout is None or (left := (rollout.since + PATIENCE - self._now).total_seconds()) <= 0:
            return False
        self._look_again(left)
        return True

    def _is_rolled_out_beside(self, held: Cached) -> bool:
        """From its beginning, so that who changes it again and again holds up no resource that has no use for it."""
        rollout = self._rollout(held)
        return rollout is not None and self._now < rollout.began + PATIENCE

    def _is_begun(self, held: Cached, begun: Begun | None) -> bool:
        """Whether it has been allowed to replace its pods, and is not known to have been written since."""
        return (
            begun is not None and begun[:2] == (held.meta.uid, held.meta.generation) and self._now < begun.at + _WRITTEN
        )

    def _look_again(self, after: float) -> None:
        self.again = after if self.again is None else min(self.again, after)

    def _rollout(self, held: Cached) -> Rollout | None:
        """What is known of its roll-out; None where it is not being rolled out."""
        meta, seen = held.meta, self._memory.seen
        if not rolling(held.decode()):
            seen.pop(meta.uid, None)
            return None
        known = seen.get(meta.uid) or Rollout(None, self._now, self._now)
        if known.generation != meta.generation:
            known = Rollout(meta.generation, self._now, known.began)
        seen[meta.uid] = known
        return known
