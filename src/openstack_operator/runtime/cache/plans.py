"""The objects that each resource plans, and by that who made an object and whether one that is deleted comes back."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, cast

from ...plan import Key, Object, key, pause_reason
from ..kubernetes.kinds import Kind
from .cache import Cache
from .entries import Meta, Request


class Maker(NamedTuple):
    """The resource whose plan made another one, if there is one."""

    request: Request | None
    is_known: bool = True
    """True if it was planned in the life of this process; any user may write labels and owner references."""


class NoRecreator(Enum):
    """Why no resource is known that makes a deleted object again."""

    NONE = "no resource recreates it"
    UNKNOWN = "a resource that may recreate it has not been planned by this process"


class _Plan(NamedTuple):
    """The objects in the last plan of a resource."""

    uid: str
    """Of the resource: one that was created again has another plan."""
    keys: frozenset[Key]


class Plans:
    """The objects that each resource plans, by its last plan in the life of this process."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
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
        if not isinstance(self._recreator_of_resource(request, frozenset()), Request):
            self._plans.pop(request, None)

    def recreates(self, kind: Kind, meta: Meta) -> bool | None:
        """Return True if an object that is being deleted comes back: its controller has it in its plan, and exists or
        comes back itself. None as long as that is not known, after a start of this process.
        """
        recreator = self.recreator(kind, meta)
        return None if recreator is NoRecreator.UNKNOWN else isinstance(recreator, Request)

    def recreator(self, kind: Kind, meta: Meta) -> Request | NoRecreator:
        """Return the existing resource whose plan brings back an object that is being deleted, or its owner."""
        owner = meta.controller
        if owner is None or not self._cache.is_ours(owner.handle):
            return NoRecreator.NONE
        return self._recreator_of_child(
            Request(owner.handle, meta.namespace, owner.name), (kind.handle, meta.name), frozenset()
        )

    def paused_recreator(self, kind: Kind, meta: Meta) -> Request | None:
        """Return the resource that would bring an object back, if it is paused: it does not do so before it is resumed.
        None for all others.
        """
        recreator = self.recreator(kind, meta)
        live = self._cache.get(recreator) if isinstance(recreator, Request) else None
        if isinstance(recreator, Request) and live is not None and pause_reason(live.meta.annotations) is not None:
            return recreator
        return None

    def holds(self, request: Request, child: Key) -> bool:
        """Return True if a resource may have made an object with its labels, which any user may write: True if its plan
        has the object, and as long as the resource has no plan, is gone or is being deleted.
        """
        live, plan = self._cache.get(request), self._plans.get(request)
        is_unknown = live is None or plan is None or plan.uid != live.meta.uid or live.meta.deletion_timestamp
        return bool(is_unknown) or child in cast("_Plan", plan).keys

    def maker(self, kind: Kind, meta: Meta) -> Maker:
        """Return the resource whose plan made an object: the one that its owner reference or its labels name, if its
        plan has the object. Not `is_known` before that resource was planned.
        """
        owner = self._cache.owner(meta)
        recreator: Request | NoRecreator = NoRecreator.NONE
        if owner:
            recreator = self._recreator_of_child(owner, (kind.handle, meta.name), frozenset())
        return Maker(None if recreator is NoRecreator.NONE else owner, is_known=recreator is not NoRecreator.UNKNOWN)

    def _recreator_of_child(self, request: Request, child: Key, visited: frozenset[Request]) -> Request | NoRecreator:
        """Return the existing resource that brings back a child of `request`: that one, if its plan has the child. If
        `request` is gone or being deleted, the resource that makes it again, and the child with it.
        """
        if request in visited:
            # Users write owner references, in a circle if they like.
            return NoRecreator.NONE
        live, plan = self._cache.get(request), self._plans.get(request)
        if live is not None and live.meta.deletion_timestamp is None:
            if not plan or plan.uid != live.meta.uid:
                return NoRecreator.UNKNOWN
            return request if child in plan.keys else NoRecreator.NONE
        recreator = self._recreator_of_resource(request, visited | {request})
        # A resource that this process never planned makes again all that it had made.
        if isinstance(recreator, Request) and plan and child not in plan.keys:
            return NoRecreator.NONE
        return recreator

    def _recreator_of_resource(self, request: Request, visited: frozenset[Request]) -> Request | NoRecreator:
        """Return the existing resource that makes a resource again which is gone or being deleted."""
        child = request.kind, request.name
        if live := self._cache.get(request):
            owner = live.meta.controller
            if owner is None or not self._cache.is_ours(owner.handle):
                return NoRecreator.NONE
            return self._recreator_of_child(Request(owner.handle, request.namespace, owner.name), child, visited)
        is_unknown = self._has_unplanned(request.namespace)
        for each, plan in self._plans.items():
            if each.namespace == request.namespace and child in plan.keys:
                recreator = self._recreator_of_child(each, child, visited)
                if isinstance(recreator, Request):
                    return recreator
                is_unknown = is_unknown or recreator is NoRecreator.UNKNOWN
        return NoRecreator.UNKNOWN if is_unknown else NoRecreator.NONE

    def _has_unplanned(self, namespace: str) -> bool:
        """Return True if a resource was not planned yet, so that its plan may have any object."""
        return any(
            resource.meta.namespace == namespace
            and resource.meta.deletion_timestamp is None
            and Request(kind.handle, namespace, resource.meta.name) not in self._plans
            for kind in self.kinds
            for resource in self._cache.stores[kind]
        )
