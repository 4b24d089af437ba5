"""Objects of the cluster by name and by owner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ...kube import IRREPLACEABLE, REMEMBERED
from .. import metrics
from ..kubernetes.kinds import Kind
from .budget import Budget, size
from .entries import Cached, Change, OwnerLabels, Request, owner_labels

_REMEMBERED = 10_000


class Store:
    """All objects of one kind. It reports each change once, whether a watch or our own write brought it."""

    def __init__(self, kind: Kind, notify: Callable[[Change], None], budget: Budget | None = None) -> None:
        self.kind = kind
        self.budget = budget
        """Limit of what a namespace may take of this store and others; None where only administrators write."""
        if budget:
            budget.stores.append(self)
        self._notify = notify
        self._objects: dict[tuple[str, str], Cached] = {}
        self._owned: dict[OwnerLabels, set[tuple[str, str]]] = {}
        self._deleted: dict[tuple[str, str], Cached] = {}
        """Last state of deleted irreplaceable objects, while the resource they were made for exists or comes back."""
        self._removed: dict[str, int] = {}
        """Version at which an object was deleted, by uid."""
        self._listed: dict[str | None, int] = {}
        """Version of the last whole list, by namespace: an object that it lacks did not exist then."""
        self._gauge = metrics.OBJECTS.labels(kind.kind)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Cached]:
        return iter(tuple(self._objects.values()))

    def get(self, namespace: str, name: str) -> Cached | None:
        """Return the object as the cluster last reported it."""
        return self._objects.get((namespace, name))

    def owned(self, namespace: str, role: str, name: str) -> list[Cached]:
        """Return the objects labeled as made for that resource."""
        return self.of_owner(owner_labels(namespace, role, name))

    def of_owner(self, owner: OwnerLabels) -> list[Cached]:
        """Return the objects whose labels name that owner."""
        return [self._objects[key] for key in sorted(self._owned.get(owner, ()))]

    def deleted(self, role: str, namespace: str, name: str) -> list[Cached]:
        """Return irreplaceable objects made for that resource that were deleted while this process watched."""
        labels = owner_labels(namespace, role, name)
        return [item for item in self._deleted.values() if item.meta.owner_labels == labels]

    def last_deleted(self, namespace: str, name: str) -> Cached | None:
        """Return the last object of that name, if it is deleted and remembered."""
        return self._deleted.get((namespace, name))

    def forget(self, owner_labels: OwnerLabels) -> None:
        """Forget the deleted objects of a resource that is gone: they are no longer irreplaceable."""
        for key in [key for key, item in self._deleted.items() if item.meta.owner_labels == owner_labels]:
            del self._deleted[key]

    def give_up(self, last: Cached) -> None:
        """Forget a deleted object that its own resource no longer uses, however irreplaceable it was."""
        self._deleted.pop((last.meta.namespace, last.meta.name), None)

    def put(self, new: Cached, *, by: Request | None = None) -> None:
        """Take in an object; a version older than the known one changes nothing."""
        key = new.meta.namespace, new.meta.name
        old = self._objects.get(key)
        latest = _version(old) if old else max(self._removed.get(new.meta.uid, 0), self._listed_at(new.meta.namespace))
        # The answer to a write of ours may come after the watch reported that the object is gone.
        if _version(new) <= latest:
            return
        self._take_in(key, old, new, by)

    def remove(self, last: Cached, *, by: Request | None = None) -> None:
        """Forget an object, unless it was created again since."""
        key = last.meta.namespace, last.meta.name
        old = self._objects.get(key)
        self._removed[last.meta.uid] = _version(last)
        if len(self._removed) > _REMEMBERED:
            del self._removed[next(iter(self._removed))]
        if old is None or (old.meta.uid != last.meta.uid and _version(last) < _version(old)):
            return
        self._set(key, old, None)
        self._notify(Change(self.kind, old, None, by))

    def replace(
        self,
        namespace: str | None,
        items: Iterable[Cached],
        version: str = "",
        *,
        before: Mapping[tuple[str, str], int] | None = None,
    ) -> str:
        """Take in a whole list as of a version, of one namespace or of all; report every difference. `before` has the
        `versions` from before the request: objects that are later than the list, and new since, stay. Return evidence
        that an object went back to an earlier version; empty without any.
        """
        listed, evidence = int(version or 0), ""
        self._listed[namespace] = listed
        by_key = {(item.meta.namespace, item.meta.name): item for item in items}
        if before is not None:
            since = {key: item for key, item in self._objects.items() if before.get(key) != _version(item)}
            by_key |= {key: item for key, item in since.items() if _version(item) > listed}
        for key, old in list(self._objects.items()):
            if key not in by_key and namespace in (None, key[0]):
                self._set(key, old, None)
                self._notify(Change(self.kind, old, None, is_listed=True))
        for key, new in by_key.items():
            old = self._objects.get(key)
            # Not compared by order: after a restore of the cluster the list is right, however old it looks, and a
            # version that was used before may stand for another content.
            if old is None or old.meta.resource_version != new.meta.resource_version or old.raw != new.raw:
                if old and old.meta.uid == new.meta.uid and _version(new) < _version(old):
                    evidence = f"{self.kind.plural} of version {_version(old)} have version {_version(new)} now"
                self._take_in(key, old, new, is_listed=True)
        return evidence

    def versions(self) -> dict[tuple[str, str], int]:
        """Return the version of each object, by namespace and name."""
        return {key: _version(item) for key, item in self._objects.items()}

    def of_namespace(self, namespace: str) -> list[Cached]:
        """Return its objects in that namespace."""
        return [item for item in self._objects.values() if item.meta.namespace == namespace]

    def drop(self, item: Cached) -> None:
        """Stop keeping an object that the cluster still holds, and report nothing: nothing happened to the object."""
        key = item.meta.namespace, item.meta.name
        self._deleted.pop(key, None)
        self._set(key, item, None, is_gone=False)

    def _take_in(
        self,
        key: tuple[str, str],
        old: Cached | None,
        new: Cached,
        by: Request | None = None,
        *,
        is_listed: bool = False,
    ) -> None:
        if self.budget is None or self.budget.admits(self, old, new):
            self._set(key, old, new)
            self._notify(Change(self.kind, old, new, by, is_listed))
        elif old is not None:
            # A plan must not use its old state.
            self.drop(old)

    def _is_remembered(self, item: Cached) -> bool:
        """Return True if a deleted object is irreplaceable, and the remembered ones of its namespace leave it room."""
        if "true" not in (item.meta.annotations.get(name) for name in (IRREPLACEABLE, REMEMBERED)):
            return False
        used = sum(size(deleted) for deleted in self._deleted.values() if deleted.meta.namespace == item.meta.namespace)
        return self.budget is None or used + size(item) <= self.budget.limit // 4

    def _listed_at(self, namespace: str) -> int:
        return max(self._listed.get(namespace, 0), self._listed.get(None, 0))

    def _set(self, key: tuple[str, str], old: Cached | None, new: Cached | None, *, is_gone: bool = True) -> None:
        for item, sign in ((old, -1), (new, 1)):
            if self.budget and item is not None:
                self.budget.count(item, sign)
        if old is not None:
            group = self._owned.get(old.meta.owner_labels)
            if group is not None:
                group.discard(key)
                if not group:
                    del self._owned[old.meta.owner_labels]
        if new is None:
            self._objects.pop(key, None)
            if is_gone and old is not None and self._is_remembered(old):
                self._deleted[key] = old
        else:
            self._deleted.pop(key, None)
            self._objects[key] = new
            if new.meta.owner_labels[1]:
                self._owned.setdefault(new.meta.owner_labels, set()).add(key)
        self._gauge.set(len(self._objects))


def _version(item: Cached) -> int:
    """Return the resource version as a number: it counts up within one API server's storage (KEP-5504)."""
    return int(item.meta.resource_version or 0)
