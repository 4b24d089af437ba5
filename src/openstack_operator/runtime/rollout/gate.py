"""A gate that lets one workload of a namespace replace its pods at a time.

If all did so at once, programs would start at the same time on the same nodes, and a mistake in what they share would
reach all of them before a user sees it. A workload also comes after those of the resources that its own requires
(decision 0014).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...kube import Rollout, is_dispensable
from ...plan import Object, Predecessor, Step, key
from ...plan.carry_out import Apply
from ..cache.entries import Cached, Change, Meta, Request
from ..kubernetes.kinds import DEPLOYMENT, STATEFUL_SET, Kind

PATIENCE = timedelta(minutes=5)
"""A roll-out that takes longer is stuck, on a node that is gone for example, and blocks nothing any more."""
LONGEST_WAIT = timedelta(minutes=15)
"""After this time in line a resource waits for no resource that it does not require: a user who may write one kind can
make any number of roll-outs that are stuck, one after the other."""
BLOCKING = (DEPLOYMENT, STATEFUL_SET)
"""Kinds whose roll-outs block others. That of a DaemonSet does not: one of its nodes may be away for days."""

_POLL_SECONDS = 10.0
"""Between looks at what blocks a resource. The end of a roll-out wakes it earlier (`Rollouts.follow`)."""
_QUEUED_SECONDS = 0.5
"""Until the next look at a required resource that is queued: it is reconciled within moments."""
_ABSENCE = timedelta(seconds=30)
"""Time after which a resource that has not looked, since a pass of it failed perhaps, loses its place in the queue."""


@dataclass(frozen=True, slots=True)
class FollowedRollout:
    """A Deployment or StatefulSet that is being rolled out, as this process has seen it."""

    kind: Kind
    meta: Meta
    since: datetime
    """Time at which it was first seen with this generation."""
    began: datetime
    """Time at which it was first seen with any: changing it again does not change this."""

    @property
    def name(self) -> str:
        """Kind/name."""
        return f"{self.kind.handle}/{self.meta.name}"


@dataclass(frozen=True, slots=True)
class _Waiter:
    request: Request
    since: datetime
    """Time at which it came into the line, or began to wait for what it requires."""
    in_line: bool
    """It waits for other resources of its namespace alone, so that the next turn is that of the first in line."""
    last_look: datetime


class Rollouts:
    """All roll-outs, and the resources that wait for them. Kept up to date by changes of the cluster."""

    def __init__(self) -> None:
        self.outdated: dict[str, datetime] = {}
        """Time by uid of a resource since which its workloads have another pod template to get, and do not get it for
        another reason than that it is not their turn."""
        self._rollouts: dict[str, FollowedRollout] = {}
        """By uid of the workload."""
        self._waiters: dict[str, _Waiter] = {}
        """By uid of the resource, in the order in which they came."""
        self._writing: dict[str, tuple[Request, str]] = {}
        """By namespace: the resource that writes another pod template now, and that workload as Kind/name."""

    def follow(self, change: Change, now: datetime) -> list[Request]:
        """Take in a change of a Deployment or StatefulSet. Return the resources to reconcile: where it ended a
        roll-out, those of the namespace that wait.
        """
        live = change.new
        before = self._rollouts.pop(change.old.meta.uid, None) if change.old else None
        if live is None or not Rollout(live.decode()).is_running:
            namespace = change.meta.namespace
            waiters = [each.request for each in self._waiters.values() if each.request.namespace == namespace]
            return waiters if before else []
        same = before if before and before.meta.uid == live.meta.uid else None
        since = same.since if same and same.meta.generation == live.meta.generation else now
        self._rollouts[live.meta.uid] = FollowedRollout(change.kind, live.meta, since, same.began if same else now)
        return []

    def of_namespace(self, namespace: str) -> list[FollowedRollout]:
        """Return the roll-outs of a namespace."""
        return [each for each in self._rollouts.values() if each.meta.namespace == namespace]

    def get(self, uid: str) -> FollowedRollout | None:
        """Return the roll-out of a workload; None if it is not being rolled out."""
        return self._rollouts.get(uid)

    def note_wait(self, uid: str, request: Request, now: datetime, *, in_line: bool) -> None:
        """Note that a resource waits. One that stays in line keeps its place there."""
        waiter = self._waiters.get(uid)
        if waiter and waiter.in_line != in_line:
            del self._waiters[uid]
        since = waiter.since if waiter and waiter.in_line == in_line else now
        self._waiters[uid] = _Waiter(request, since, in_line, now)

    def has_waited(self, uid: str, now: datetime) -> bool:
        """Return True if a resource has been in line for longer than it has to."""
        waiter = self._waiters.get(uid)
        return waiter is not None and waiter.in_line and now >= waiter.since + LONGEST_WAIT

    def note_no_wait(self, uid: str) -> None:
        """Note that a resource does not wait any more."""
        self._waiters.pop(uid, None)

    def first_in_line(self, namespace: str, now: datetime) -> Request | None:
        """Return the resource of a namespace whose turn is next; None if no resource waits for its turn."""
        for uid, each in list(self._waiters.items()):
            if each.request.namespace == namespace and each.in_line:
                if now < each.last_look + _ABSENCE:
                    return each.request
                del self._waiters[uid]
        return None

    def begin_write(self, request: Request, workload: str) -> None:
        """Note that a resource is about to write another pod template of a workload. No other resource of its namespace
        may do so before `end_write`.
        """
        self._writing[request.namespace] = request, workload

    def end_write(self, request: Request) -> None:
        """Note that the write was answered, refused or canceled. From here on the store shows what it did."""
        if self._writing.get(request.namespace, (None, ""))[0] == request:
            del self._writing[request.namespace]

    def written_by_another(self, request: Request) -> str:
        """Return the workload that another resource of the namespace writes at this moment, empty for none."""
        writer, workload = self._writing.get(request.namespace, (request, ""))
        return "" if writer == request else workload

    def forget(self, uid: str) -> None:
        """Drop what is known of a resource that is gone; the end of a workload is a change."""
        self.outdated.pop(uid, None)
        self._waiters.pop(uid, None)


@dataclass(frozen=True)
class Required:
    """A resource that another one refers to and requires."""

    name: str
    """Kind/name."""
    workloads: frozenset[str]
    """Uids of what it made."""
    queued: bool = False
    """It is queued for reconciliation."""
    outdated: bool = False
    """It has workloads that wait for another pod template."""


class RolloutGate:
    """The gate of one pass over a resource: it decides which of its workloads may replace their pods."""

    def __init__(  # noqa: PLR0913  (a pass, and what it knows of the cluster as functions)
        self,
        rollouts: Rollouts,
        request: Request,
        uid: str,
        now: datetime,
        *,
        find: Callable[[Object], Cached | None],
        workloads: frozenset[str],
        replaces_pods: Callable[[Object], bool],
        required: Callable[[], Iterable[Required]] = tuple,
        is_made_by_another: Callable[[FollowedRollout], bool] = lambda _: True,
    ) -> None:
        """`request` and `uid` name the resource, `workloads` has the uids of what it had made when the pass began.
        `find` returns the live object that a plan's object describes, `replaces_pods` whether applying that object
        gives a workload another pod template, `required` the resources that come first. `is_made_by_another` returns
        whether the plan of another resource has that workload.
        """
        self._rollouts, self._request, self._uid, self._now = rollouts, request, uid, now
        self._find, self._workloads, self._replaces_pods = find, workloads, replaces_pods
        self._required, self._is_made_by_another = required, is_made_by_another
        self.retry_after: float | None = None
        """Seconds after which to look again; None unless a step was blocked."""
        self._in_line = False

    def blocked_by(self, step: Step) -> Predecessor | None:
        """Return the workload, or the resource, that has to change before this step; None if the step may go. A step
        that may go has the turn until `apply` ends. An urgent one may always go.
        """
        to_replace = {key(obj): live for obj in step.workloads if (live := self._live_with_older_pods(obj))}
        for live in () if step.urgent else to_replace.values():
            if blocker := self._same_resource(live) or self._of_required() or self._of_namespace():
                return blocker
        if to_replace:
            self._rollouts.begin_write(self._request, "/".join(next(iter(to_replace))))
        return None

    async def apply(self, write: Apply, step: Step) -> Sequence[Object]:
        """Write a step that may go and return its objects as they are now; then other resources may have their turn.
        Raises what `write` raises.
        """
        try:
            return await write(step)
        finally:
            self._rollouts.end_write(self._request)

    def close(self) -> None:
        """End the pass: a resource that nothing blocked in it waits no longer."""
        if self.retry_after is None:
            self._rollouts.note_no_wait(self._uid)
        else:
            self._rollouts.note_wait(self._uid, self._request, self._now, in_line=self._in_line)

    def _live_with_older_pods(self, obj: Object) -> Cached | None:
        """Return the workload that gets another pod template; None for one that rolls out, which may change again, or
        that nothing needs.
        """
        live = None if is_dispensable(obj) else self._find(obj)
        if live is None or live.meta.uid not in self._workloads or not self._replaces_pods(obj):
            return None
        return None if self._rollouts.get(live.meta.uid) else live

    def _same_resource(self, live: Cached) -> Predecessor | None:
        for uid in self._workloads - {live.meta.uid}:
            if (rollout := self._rollouts.get(uid)) and self._is_recent(rollout.since):
                return self._wait(rollout.name, until=rollout.since + PATIENCE)
        return None

    def _of_required(self) -> Predecessor | None:
        required = [*self._required()]
        for uid in (uid for each in required for uid in each.workloads):
            # From its last change: what requires it comes after that.
            if (rollout := self._rollouts.get(uid)) and self._is_recent(rollout.since):
                return self._wait(rollout.name, until=rollout.since + PATIENCE)
        if queued := [each.name for each in required if each.queued]:
            return self._wait(queued[0], _QUEUED_SECONDS)
        outdated = [each.name for each in required if each.outdated]
        return self._wait(outdated[0]) if outdated else None

    def _of_namespace(self) -> Predecessor | None:
        """Return what blocks the resource, from the beginning of a roll-out on. A resource that is changed again and
        again does not block those that do not require it.
        """
        if self._rollouts.has_waited(self._uid, self._now):
            # It keeps its place, and with it the time that it has waited, for the moment that a write takes.
            self._in_line = bool(writing := self._rollouts.written_by_another(self._request))
            return self._wait(writing) if writing else None
        rollouts = (
            each
            for each in self._rollouts.of_namespace(self._request.namespace)
            if each.meta.uid not in self._workloads and self._is_recent(each.began) and self._is_made_by_another(each)
        )
        blocker, until = self._rollouts.written_by_another(self._request), None
        if not blocker and (rollout := next(rollouts, None)):
            blocker, until = rollout.name, rollout.began + PATIENCE
        # From here on it has a place in the queue, also while a roll-out blocks all of them.
        self._rollouts.note_wait(self._uid, self._request, self._now, in_line=True)
        next_in_line = self._rollouts.first_in_line(self._request.namespace, self._now)
        if not blocker and next_in_line and next_in_line != self._request:
            blocker = f"{next_in_line.kind.partition('.')[0]}/{next_in_line.name}"
        if not blocker:
            return None
        self._in_line = True
        return self._wait(blocker, until=until)

    def _is_recent(self, moment: datetime) -> bool:
        return self._now < moment + PATIENCE

    def _wait(self, blocker: str, seconds: float = _POLL_SECONDS, *, until: datetime | None = None) -> Predecessor:
        self.retry_after = min(seconds, self.retry_after or seconds)
        return Predecessor(blocker, until)
