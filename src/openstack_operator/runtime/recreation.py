"""Objects that their owner makes again at once when a user deletes them: their parts stay and are not restarted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from ..plan import Key, Object, key, pause_reason
from .entries import Meta, Request
from .kinds import Kind
from .ownership import Maker

if TYPE_CHECKING:
    from .world import World


class Recreations:
    """Objects that a user deleted and their owner made again, by the uid of that owner."""

    def __init__(self) -> None:
        self._existing: dict[str, set[str]] = {}

    def note(self, uid: str, desired: Iterable[str], children: Iterable[str], changes: Iterable[str]) -> list[str]:
        """Return the objects that a pass made and that had existed before, without those that the operator deleted
        itself. The plan had `desired`; the pass began with `children` and did `changes` (`Kind/name created`).
        """
        at_start, recreated = set(children), list[str]()
        existing = self._existing.setdefault(uid, set()) | at_start
        for change in changes:
            name, _, verb = change.rpartition(" ")
            if verb == "deleted":
                existing.discard(name)
            elif verb == "created":
                if name in existing - at_start:
                    recreated.append(name)
                existing.add(name)
        self._existing[uid] = existing & set(desired)
        return recreated

    def give_up(self, uid: str, name: str) -> None:
        """Record that the operator itself deleted this object of that owner, as Kind/name."""
        self._existing.get(uid, set[str]()).discard(name)

    def forget(self, uid: str) -> None:
        """Forget an owner that is gone."""
        self._existing.pop(uid, None)


class _Plan(NamedTuple):
    """The objects in the last plan of a resource."""

    uid: str
    """Of the resource: one that was created again has another plan."""
    keys: frozenset[Key]


class Plans:
    """The objects that each resource plans, by its last plan in the life of this process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._plans: dict[Request, _Plan] = {}
        self.kinds: tuple[Kind, ...] = ()
        """Kinds whose resources have plans."""

    def settle(self, request: Request, uid: str, objects: Iterable[Object]) -> None:
        """Record that the resource of that uid plans these objects, and no others."""
        self._plans[request] = _Plan(uid, frozenset(map(key, objects)))

    def forget_all(self) -> None:
        """Forget all plans: each resource has to be planned again before anybody judges by its plan."""
        self._plans.clear()

    def is_known(self, request: Request, uid: str) -> bool:
        """Return True if the resource of that uid was planned in the life of this process."""
        plan = self._plans.get(request)
        return plan is not None and plan.uid == uid

    def forget(self, request: Request) -> None:
        """Forget the plan of a resource that is gone, unless it comes back."""
        if not self._returns(request, frozenset()):
            self._plans.pop(request, None)

    def recreates(self, kind: Kind, meta: Meta) -> bool | None:
        """Return True if an object that is being deleted comes back: its controller has it in its plan, and exists or
        comes back itself. None as long as that is not known, after a start of this process.
        """
        recreator = self.recreator(kind, meta)
        return recreator if recreator is None else bool(recreator)

    def recreator(self, kind: Kind, meta: Meta) -> Request | Literal[False] | None:
        """Return as `recreates`, but instead of True the existing resource whose plan brings it or its owner back."""
        owner = meta.controller
        if owner is None or not self._world.is_ours(owner.handle):
            return False
        return self._wants(Request(owner.handle, meta.namespace, owner.name), (kind.handle, meta.name), frozenset())

    def paused_recreator(self, kind: Kind, meta: Meta) -> Request | None:
        """Return the resource that would bring an object back, if it is paused: it does not do so before it is resumed.
        None for all others.
        """
        recreator = self.recreator(kind, meta)
        live = self._world.get(recreator) if isinstance(recreator, Request) else None
        if isinstance(recreator, Request) and live is not None and pause_reason(live.meta.annotations) is not None:
            return recreator
        return None

    def holds(self, request: Request, child: Key) -> bool:
        """Return True if a resource may have made an object with its labels, which any user may write: True if its plan
        has the object, and as long as the resource has no plan, is gone or is being deleted.
        """
        live, plan = self._world.get(request), self._plans.get(request)
        is_unknown = live is None or plan is None or plan.uid != live.meta.uid or live.meta.deletion_timestamp
        return bool(is_unknown) or child in cast("_Plan", plan).keys

    def maker(self, kind: Kind, meta: Meta) -> Maker:
        """Return the resource whose plan made an object: the one that its owner reference or its labels name, if its
        plan has the object. Not `is_known` before that resource was planned.
        """
        owner = self._world.owner(meta)
        wants = self._wants(owner, (kind.handle, meta.name), frozenset()) if owner else False
        return Maker(None if wants is False else owner, is_known=wants is not None)

    def _wants(self, request: Request, child: Key, visited: frozenset[Request]) -> Request | Literal[False] | None:
        if request in visited:
            # Users write owner references, in a circle if they like.
            return False
        live, plan = self._world.get(request), self._plans.get(request)
        if live is not None and live.meta.deletion_timestamp is None:
            if not plan or plan.uid != live.meta.uid:
                return None
            return request if child in plan.keys else False
        returns = self._returns(request, visited | {request})
        # A resource that this process never planned makes again all that it had made.
        if returns and plan and child not in plan.keys:
            return False
        return returns

    def _returns(self, request: Request, visited: frozenset[Request]) -> Request | Literal[False] | None:
        """Return the existing resource that makes a resource again which is gone or being deleted."""
        child = request.kind, request.name
        if live := self._world.get(request):
            owner = live.meta.controller
            if owner is None or not self._world.is_ours(owner.handle):
                return False
            return self._wants(Request(owner.handle, request.namespace, owner.name), child, visited)
        is_unknown = self._has_unplanned(request.namespace)
        for each, plan in self._plans.items():
            if each.namespace == request.namespace and child in plan.keys:
                if recreator := self._wants(each, child, visited):
                    return recreator
                is_unknown = is_unknown or recreator is None
        return None if is_unknown else False

    def _has_unplanned(self, namespace: str) -> bool:
        """Return True if a resource was not planned yet, so that its plan may have any object."""
        return any(
            resource.meta.namespace == namespace
            and resource.meta.deletion_timestamp is None
            and Request(kind.handle, namespace, resource.meta.name) not in self._plans
            for kind in self.kinds
            for resource in self._world.stores[kind]
        )
