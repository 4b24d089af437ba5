"""What its owner makes again at once when somebody deletes it: nothing of it is removed or restarted meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from ..plan import Key, Object, key
from .kinds import Kind
from .ownership import Maker
from .store import Meta, Request

if TYPE_CHECKING:
    from .world import World


class Recreations:
    """Objects that somebody deleted and their owner made again, by the uid of that owner."""

    def __init__(self) -> None:
        self._existing: dict[str, set[str]] = {}

    def note(self, uid: str, wanted: Iterable[str], there: Iterable[str], changes: Iterable[str]) -> list[str]:
        """The objects a pass made that had been there before. Its plan held `wanted`, it began with `there`, and it
        did these `changes` (`Kind/name created`). What the operator deleted itself is not among them.
        """
        at_first, recreated = set(there), list[str]()
        existing = self._existing.setdefault(uid, set()) | at_first
        for change in changes:
            name, _, verb = change.rpartition(" ")
            if verb == "deleted":
                existing.discard(name)
            elif verb == "created":
                if name in existing - at_first:
                    recreated.append(name)
                existing.add(name)
        self._existing[uid] = existing & set(wanted)
        return recreated

    def give_up(self, uid: str, name: str) -> None:
        """The operator itself has deleted this object of that owner, as Kind/name."""
        self._existing.get(uid, set[str]()).discard(name)

    def forget(self, uid: str) -> None:
        """That owner is gone."""
        self._existing.pop(uid, None)


class _Plan(NamedTuple):
    """What the last plan of a resource held."""

    uid: str
    """Of the resource: one that was made anew has another plan."""
    keys: frozenset[Key]


class Plans:
    """What each resource wants there to be, as its last plan in the life of this process said it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._plans: dict[Request, _Plan] = {}
        self.kinds: tuple[Kind, ...] = ()
        """Kinds whose resources have plans."""

    def settle(self, request: Request, uid: str, objects: Iterable[Object]) -> None:
        """The resource of that uid wants these objects, and no others."""
        self._plans[request] = _Plan(uid, frozenset(map(key, objects)))

    def forget(self, request: Request) -> None:
        """The resource is gone; unless it comes back its plan is of no use."""
        if not self._returns(request, frozenset()):
            self._plans.pop(request, None)

    def recreates(self, kind: Kind, meta: Meta) -> bool | None:
        """Whether an object that is being deleted comes back: what controls it has it in its plan, and is there or
        comes back itself. None as long as that is not known, after a start of this process.
        """
        found = self.recreator(kind, meta)
        return found if found is None else bool(found)

    def recreator(self, kind: Kind, meta: Meta) -> Request | Literal[False] | None:
        """As `recreates`, with the resource that is there and by whose plan it comes back, or what owns it does."""
        owner = meta.controller
        if owner is None or not self._world.ours(owner.handle):
            return False
        return self._wants(Request(owner.handle, meta.namespace, owner.name), (kind.handle, meta.name), frozenset())

    def holds(self, request: Request, child: Key) -> bool:
        """Whether a resource may have made an object that bears its labels, as anybody may write: a resource that was
        planned has it in its plan. Of one that goes, or was not planned yet, that is not known.
        """
        live, plan = self._world.held(request), self._plans.get(request)
        unknown = live is None or plan is None or plan.uid != live.meta.uid or live.meta.deletion_timestamp
        return bool(unknown) or child in cast("_Plan", plan).keys

    def maker(self, kind: Kind, meta: Meta) -> Maker:
        """The resource by whose plan an object is there: of those that its owner reference or its labels name, only one
        whose plan has it. Not `known` before that was planned.
        """
        owner = self._world.owner(meta)
        wants = self._wants(owner, (kind.handle, meta.name), frozenset()) if owner else False
        return Maker(None if wants is False else owner, known=wants is not None)

    def _wants(self, request: Request, child: Key, seen: frozenset[Request]) -> Request | Literal[False] | None:
        if request in seen:
            # Users write owner references, in a circle if they like.
            return False
        live, plan = self._world.held(request), self._plans.get(request)
        if live is not None and live.meta.deletion_timestamp is None:
            if not plan or plan.uid != live.meta.uid:
                return None
            return request if child in plan.keys else False
        returns = self._returns(request, seen | {request})
        # Where it was never planned here, what it made is what it is going to make.
        if returns and plan and child not in plan.keys:
            return False
        return returns

    def _returns(self, request: Request, seen: frozenset[Request]) -> Request | Literal[False] | None:
        """Who is there and makes a resource again that is gone, or being deleted."""
        child = request.kind, request.name
        if live := self._world.held(request):
            owner = live.meta.controller
            if owner is None or not self._world.ours(owner.handle):
                return False
            return self._wants(Request(owner.handle, request.namespace, owner.name), child, seen)
        unknown = self._unplanned(request.namespace)
        for each, plan in self._plans.items():
            if each.namespace == request.namespace and child in plan.keys:
                if found := self._wants(each, child, seen):
                    return found
                unknown = unknown or found is None
        return None if unknown else False

    def _unplanned(self, namespace: str) -> bool:
        """Whether there is a resource that was not planned yet, and may want anything."""
        return any(
            held.meta.namespace == namespace
            and held.meta.deletion_timestamp is None
            and Request(kind.handle, namespace, held.meta.name) not in self._plans
            for kind in self.kinds
            for held in self._world.stores[kind]
        )
