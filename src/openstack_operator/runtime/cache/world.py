"""The cluster as this process knows it: its objects, and what each resource planned, published and refers to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from ...kube import fitting
from ...plan.node_labels import NodeLabels
from ..kubernetes.client import Client
from ..kubernetes.discovery import PERIOD
from ..kubernetes.kinds import SECRET, SERVICE, Catalog, Kind
from .cache import Cache
from .entries import Cached, Change, Meta, OwnerLabels, Request
from .plans import Plans
from .references import References

_REMEMBERED = SECRET, SERVICE


@dataclass(frozen=True)
class _DeletedResource:
    kind: Kind
    meta: Meta
    published: Mapping[str, str]
    """Its last published contract."""


class World(Cache):
    """A cache, and what passes of this process learned."""

    def __init__(
        self,
        client: Client,
        catalog: Catalog,
        namespaces: Sequence[str],
        notify: Callable[[Change], None],
        on_kinds_changed: Callable[[], None] = lambda: None,
        is_pending: Callable[[Request], bool] = lambda _: False,
        *,
        discovery_period: float = PERIOD,
        node_labels: NodeLabels = "legacy",
    ) -> None:
        """Take the arguments of the cache; `is_pending` returns True for a resource that is queued for a pass."""
        self.is_pending, self._on_change = is_pending, notify
        self.references = References()
        self._published: dict[str, Mapping[str, str]] = {}
        self._awaiting_recreation: dict[OwnerLabels, _DeletedResource] = {}
        """Resources that are gone and come back: the resource that made them exists."""
        self.finalizer_removals: dict[tuple[str, str], datetime] = {}
        """Time at which this operator last took off the finalizer of another operator, by namespace and operator."""
        self.epoch = 0
        """Number of times that the cluster was put back to an earlier state; generations are of one epoch."""
        self.deletions: dict[str, datetime] = {}
        """Time since which this process knows that an object is being deleted, by uid (`clock.steady`)."""
        super().__init__(
            client,
            catalog,
            namespaces,
            self._learn,
            on_kinds_changed,
            discovery_period=discovery_period,
            node_labels=node_labels,
        )
        self.plans = Plans(self)
        """The objects that each resource plans."""

    def _learn(self, change: Change) -> None:
        self._remember(change)
        if change.old and (change.new is None or change.new.meta.uid != change.old.meta.uid):
            self._published.pop(change.old.meta.uid, None)
            self.deletions.pop(change.old.meta.uid, None)
        self._on_change(change)

    def _remember(self, change: Change) -> None:
        """Remember irreplaceable objects as long as the resource they were made for exists or comes back. A later
        resource of that name begins with passwords of its own.
        """
        if change.kind in self.catalog.resources:
            owner_labels = change.meta.namespace, change.kind.role.lower(), fitting(change.meta.name)
            if change.new is not None:
                if predecessor := self._awaiting_recreation.pop(owner_labels, None):
                    self._published.setdefault(change.new.meta.uid, predecessor.published)
            elif self.plans.recreates(change.kind, change.meta) is not False:
                published = self.published(cast("Cached", change.old))
                self._awaiting_recreation[owner_labels] = _DeletedResource(change.kind, change.meta, published)
            else:
                self._awaiting_recreation.pop(owner_labels, None)
                for kind in _REMEMBERED:
                    self.stores[kind].forget(owner_labels)
        elif change.kind in _REMEMBERED and change.new is None:
            owner_labels = change.meta.owner_labels
            if owner_labels not in self._awaiting_recreation and self.labeled_owner(change.meta) is None:
                self.stores[change.kind].forget(owner_labels)

    def forget_all(self) -> None:
        """Forget all knowledge beyond the stores: the cluster has an earlier state, so the plans of its resources, and
        what they publish, have to be made again.
        """
        self.epoch += 1
        self._published.clear()
        self.deletions.clear()
        self.plans.forget_all()

    def publish(self, resource: Cached, published: Mapping[str, str]) -> bool:
        """Take in what a resource publishes to its users, ahead of its status, which is written less often.

        Return True if it changed.
        """
        is_news = self.published(resource) != published
        self._published[resource.meta.uid] = dict(published)
        return is_news

    def published(self, resource: Cached) -> Mapping[str, str]:
        """Return what a resource publishes to its users; before its first plan, what its predecessor published."""
        latest = self._published.get(resource.meta.uid)
        return latest if latest is not None else (resource.decode().get("status") or {}).get("published") or {}

    def published_before(self, role: str, namespace: str, name: str) -> Mapping[str, str]:
        """Return what a resource that is gone and comes back published last; empty for other resources."""
        deleted = self._awaiting_recreation.get((namespace, role.lower(), fitting(name)))
        if deleted is None or self.plans.recreates(deleted.kind, deleted.meta) is False:
            return {}
        return deleted.published
