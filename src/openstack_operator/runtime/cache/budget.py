"""Bounds what one namespace may take of this process's memory: what is too much there is not kept, the newest first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from .. import metrics
from ..kubernetes.kinds import Kind
from .entries import Cached, Meta, OwnerLabels

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

BYTES = 32 << 20
"""Limit for the objects of a namespace. A highly available cloud has half a mebibyte."""
OBJECTS = 20_000
_ROOM = 0.9
"""Share of both to which a full namespace is emptied, so that not each further object has all of them sorted."""
_EACH = 1024
"""Bytes that an object takes besides its content."""
_NAMES = 1000
"""Owners of refused objects that are remembered, for each kind and namespace; beyond that all count as such."""
_FOREIGN_SHARE = 4
"""Objects that belong to no resource may take one part in so many of a list."""


class Holder(Protocol):
    """A store that makes room where a namespace holds too much."""

    kind: Kind

    def of_namespace(self, namespace: str) -> list[Cached]:
        """Return its objects in that namespace."""
        ...

    def drop(self, item: Cached) -> None:
        """Stop keeping an object that the cluster still holds."""
        ...


@dataclass
class _Usage:
    """Memory that a namespace takes, and the owners of its objects that are not kept."""

    bytes: int = 0
    objects: int = 0
    owners: defaultdict[Holder, set[OwnerLabels]] = field(default_factory=lambda: defaultdict(set))
    """Owners that the labels of refused objects name."""
    is_logged: bool = False


class Budget:
    """A count of the objects of several stores by namespace, which makes room where they are too many."""

    def __init__(self, is_ours: Callable[[Kind, Meta], bool], *, limit: int = BYTES, objects: int = OBJECTS) -> None:
        """`is_ours` says whether an object is a resource of ours, or was made for one that exists."""
        self.limit = limit
        self._objects = objects
        self.is_ours = is_ours
        self._usages: defaultdict[str, _Usage] = defaultdict(_Usage)
        self.stores: list[Holder] = []

    def count(self, item: Cached, sign: int) -> None:
        """Count an object that a store takes in (1) or drops (-1)."""
        usage = self._usages[item.meta.namespace]
        usage.bytes += sign * size(item)
        usage.objects += sign

    def admits(self, store: Holder, old: Cached | None, new: Cached) -> bool:
        """Return whether a store may take in an object in place of `old`. The stores may drop other objects for it."""
        usage = self._usages[new.meta.namespace]
        growth = size(new) - (size(old) if old else 0)
        if not new.meta.namespace or (
            usage.bytes + growth <= self.limit and usage.objects + (old is None) <= self._objects
        ):
            return True
        return self._make_room(store, new, usage, growth, int(old is None))

    def lacks(self, kind: Kind, namespace: str) -> bool:
        """Return whether the namespace has objects of a kind that are not kept."""
        usage = self._usages.get(namespace)
        return bool(usage and any(names for store, names in usage.owners.items() if store.kind is kind))

    def refused_kinds(self, owner: OwnerLabels) -> list[Kind]:
        """Return the kinds of which objects made for that resource are not kept, as far as is known."""
        usage = self._usages.get(owner[0])
        owners = usage.owners.items() if usage else ()
        return [store.kind for store, names in owners if owner in names or len(names) >= _NAMES]

    def _make_room(self, store: Holder, new: Cached, usage: _Usage, growth: int, count: int) -> bool:
        """Drop objects that belong to no resource, then the newest, until there is room. Return whether `new` stays."""
        namespace, name = new.meta.namespace, new.meta.name
        entries = [(each, item) for each in self.stores for item in each.of_namespace(namespace)]
        candidates = [(each, item) for each, item in entries if (each, item.meta.name) != (store, name)]
        candidates.append((store, new))
        candidates.sort(key=lambda pair: pair[1].meta.creation_timestamp, reverse=True)
        candidates.sort(key=lambda pair: self.is_ours(pair[0].kind, pair[1].meta))
        excess = usage.bytes + growth - int(self.limit * _ROOM)
        surplus = usage.objects + count - int(self._objects * _ROOM)
        stays = True
        for each, item in candidates:
            if excess <= 0 and surplus <= 0:
                break
            excess, surplus = excess - size(item), surplus - 1
            self.refuse(each, item)
            if item is new:
                stays = False
            else:
                each.drop(item)
        return stays

    def refuse(self, store: Holder, item: Cached) -> None:
        """Note that an object is not kept."""
        namespace = item.meta.namespace
        _add(self._usages[namespace].owners[store], item.meta)
        self.report(namespace)

    def set_refused(self, store: Holder, namespace: str | None, owners: Mapping[str, set[OwnerLabels]]) -> None:
        """Note that of a store the objects that name these owners are not kept, by namespace, and no others."""
        for name, usage in self._usages.items():
            if namespace in (None, name):
                usage.owners.pop(store, None)
        for name, names in owners.items():
            self._usages[name].owners[store] = set(names)

    def report(self, namespace: str) -> None:
        """Count in the metrics, and log once, that a namespace holds too much."""
        metrics.REFUSED.labels(namespace).inc()
        usage = self._usages[namespace]
        if not usage.is_logged:
            usage.is_logged = True
            _log.warning(
                "a namespace exceeds its share of the cache; new objects are not cached",
                namespace=namespace,
                limit=self.limit,
            )


class Listing:
    """Limits to what is kept of a list while it comes in."""

    def __init__(self, budget: Budget, store: Holder, namespace: str | None) -> None:
        self._budget = budget
        self._store = store
        self._namespace = namespace
        self._bytes = Counter[tuple[str, bool]]()
        self._owners: defaultdict[str, set[OwnerLabels]] = defaultdict(set)

    def keeps(self, item: Cached) -> bool:
        """Return whether there is room for an object. Objects that belong to no resource have the smaller share."""
        namespace, budget = item.meta.namespace, self._budget
        ours, bytes_ = budget.is_ours(self._store.kind, item.meta), size(item)
        limit = budget.limit if ours else budget.limit // _FOREIGN_SHARE
        if namespace and self._bytes[namespace, ours] + bytes_ > limit:
            _add(self._owners[namespace], item.meta)
            budget.report(namespace)
            return False
        self._bytes[namespace, ours] += bytes_
        return True

    def complete(self) -> None:
        """Note that the store takes in the list now: earlier refusals may be gone, and those of this list count."""
        self._budget.set_refused(self._store, self._namespace, self._owners)


def _add(owners: set[OwnerLabels], meta: Meta) -> None:
    if len(owners) < _NAMES:
        owners.add(meta.owner_labels)


def size(item: Cached) -> int:
    """Return the bytes that an object takes, about: its labels and annotations are kept twice."""
    meta = item.meta
    texts = (len(name) + len(text) for each in (meta.labels, meta.annotations) for name, text in each.items())
    owners = sum(len(owner.name) + len(owner.uid) for owner in meta.owner_references)
    return _EACH + len(item.raw) + sum(texts) + owners
