"""The cluster as this process knows it: one store a kind, and who depends on whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import cast

import msgspec

from ..api import Dependency
from ..kube import KIND, MANAGED_BY, fitting
from ..plan import Transient
from .budget import Budget
from .claims import Claims
from .client import Client
from .discovery import Discovery
from .informer import Informer
from .kinds import CLAIM, DAEMON_SET, NODE, OTHERS, POD, SECRET, SERVICE, STATEFUL_SET, WARNING, Catalog, Kind
from .pods import SELECTOR, trimmed
from .recreation import Plans
from .store import Cached, Change, Meta, OwnerLabels, Request, Store, cached
from .warnings import SELECTOR as WARNINGS
from .warnings import Warnings, warning

Target = tuple[str, str, str]
"""(role, namespace, name) of something a spec names."""


def watched(wanted: Dependency) -> str:
    """The kind of a target that stands for one condition of a resource."""
    return f"{wanted.kind}.{wanted.condition}"


_OURS = f"app.kubernetes.io/managed-by={MANAGED_BY}"
_NOT_OURS = f"app.kubernetes.io/managed-by!={MANAGED_BY}"
_REMEMBERED = SECRET, SERVICE


class Users:
    """Which resources name which objects in their specs."""

    def __init__(self) -> None:
        self._targets: dict[Request, frozenset[Target]] = {}
        self._users: dict[Target, set[Request]] = {}

    def of(self, target: Target) -> Sequence[Request]:
        """Resources whose specs name that object."""
        return tuple(self._users.get(target, ()))

    def set(self, request: Request, targets: Iterable[Target]) -> None:
        """From now on this resource uses exactly those objects."""
        new, old = frozenset(targets), self._targets.get(request, frozenset())
        for target in old - new:
            users = self._users[target]
            users.discard(request)
            if not users:
                del self._users[target]
        for target in new - old:
            self._users.setdefault(target, set()).add(request)
        if new:
            self._targets[request] = new
        else:
            self._targets.pop(request, None)


class World:
    """Stores of all kinds, and the informers that fill them."""

    def __init__(
        self,
        client: Client,
        catalog: Catalog,
        namespaces: Sequence[str],
        notify: Callable[[Change], None],
        turned: Callable[[], None] = lambda: None,
        is_pending: Callable[[Request], bool] = lambda _: False,
    ) -> None:
        """`turned` is called when the API comes to serve an optional kind, or stops to; `is_pending`
        tells whether a resource is queued for reconciliation.
        """
        self.is_pending = is_pending
        self.client = client
        self.catalog = catalog
        self.users = Users()
        self._notify = notify
        self._turned = turned
        self._published: dict[str, Mapping[str, str]] = {}
        self._returning: set[OwnerLabels] = set()
        """Resources that are gone, and come back: what made them is there."""
        self._awaiting_recreation: dict[OwnerLabels, tuple[Kind, Meta, Mapping[str, str]]] = {}
        """Resources that are gone and come back, each with what it published last."""
        self.budget = Budget(self._is_claimed)
        """What each namespace may take of these stores."""
        self.stores = {kind: Store(kind, self._changed, self.budget) for kind in catalog.all}
        self.foreign = Store(SECRET, self._changed, self.budget)
        """Metadata of Secrets that are not ours; their content is fetched when a spec names one."""
        self.volumes = Store(CLAIM, self._changed, self.budget)
        """Volume claims that Kubernetes makes for StatefulSets of ours, with the labels of their selectors."""
        self.pods = Store(POD, self._changed, self.budget)
        """Pods of ours, trimmed to what somebody may see of them."""
        self._resources_in = Counter[str]()
        """Numbers of resources of ours, by namespace."""
        self.warnings = Warnings(WARNING, self._changed, lambda namespace: self._resources_in[namespace] > 0)
        self.nodes = Store(NODE, self._changed)
        """Metadata of Nodes, where some kind looks at them."""
        self.claims = Claims(self)
        """Whose agents run on which nodes."""
        self.released: dict[tuple[str, str], datetime] = {}
        """When an object of another operator was let go for it last, by namespace and operator."""
        self.plans = Plans(self)
        """What each resource wants there to be."""
        self._resources = {kind.handle: kind for kind in catalog.resources}
        self._roles: dict[str, list[Kind]] = {}
        for kind in catalog.resources:
            self._roles.setdefault(kind.role, []).append(kind)
        self.discovery = Discovery(client, (kind for kind in catalog.all if kind.optional))
        scopes: Sequence[str | None] = namespaces or (None,)
        self.informers = [informer for scope in scopes for informer in self._informers(scope)]
        if catalog.on_nodes:
            self.informers.append(Informer(client, self.nodes, metadata_only=True))

    def _informers(self, scope: str | None) -> Iterator[Informer]:
        resources: list[Informer] = []
        for kind, store in self.stores.items():
            is_resource, discovery = kind in self.catalog.resources, self.discovery
            made = Informer(
                self.client,
                store,
                namespace=scope,
                selector="" if is_resource else _OURS,
                discovery=discovery if kind.optional else None,
                turned=self._turned,
                # Where there is too much, what was made for a resource that is there is kept before other things.
                after=() if is_resource else resources,
            )
            resources += [made] if is_resource else []
            yield made
        # Of an Event about nothing known nobody could say whether it concerns us.
        yield Informer(self.client, self.warnings, namespace=scope, fields=WARNINGS, read=warning, after=resources)
        yield Informer(self.client, self.foreign, namespace=scope, selector=_NOT_OURS, metadata_only=True)
        yield Informer(self.client, self.volumes, namespace=scope, selector=f"{KIND},{_NOT_OURS}")
        yield Informer(self.client, self.pods, namespace=scope, selector=SELECTOR, read=trimmed)

    def _is_claimed(self, kind: Kind, meta: Meta) -> bool:
        return kind in self.catalog.resources or self.labeled(meta) is not None

    def check_complete(self, request: Request) -> None:
        """Raises Transient where objects of that resource are not kept: who planned without them would make others in
        their place. The API server is asked for them again.
        """
        role, namespace, name = self.target(request)
        refused = self.budget.refused((namespace, role.lower(), fitting(name)))
        if not refused:
            return
        for informer in self.informers:
            if informer.store.kind in refused:
                informer.list_again()
        kinds = ", ".join(sorted({kind.plural for kind in refused}))
        full_names = ",".join(sorted({kind.full_name for kind in refused}))
        raise Transient(
            f"the namespace holds too many or too large {kinds} with the operator's labels, more than"
            f" {self.budget.limit >> 20} MiB; delete what is not the operator's: kubectl get {full_names}"
            f" -n {namespace} -l {_OURS}"
        )

    def _changed(self, change: Change) -> None:
        if change.kind in self.catalog.resources:
            self._resources_in[change.meta.namespace] += (change.new is not None) - (change.old is not None)
        if change.kind is DAEMON_SET:
            self.claims.follow(change)
        self._remember(change)
        if change.old and (change.new is None or change.new.meta.uid != change.old.meta.uid):
            self._published.pop(change.old.meta.uid, None)
        self._notify(change)

    def _remember(self, change: Change) -> None:
        """What is irreplaceable is remembered as long as what it was made for is there or comes back. A later one of
        that name begins with passwords of its own.
        """
        if change.kind in self.catalog.resources:
            made_for = change.meta.namespace, change.kind.role.lower(), fitting(change.meta.name)
            if change.new is not None:
                self._returning.discard(made_for)
                if before := self._awaiting_recreation.pop(made_for, None):
                    self._published.setdefault(change.new.meta.uid, before[2])
            elif self.plans.recreates(change.kind, change.meta) is not False:
                self._returning.add(made_for)
                self._awaiting_recreation[made_for] = (
                    change.kind,
                    change.meta,
                    self.published(cast("Cached", change.old)),
                )
            else:
                self._awaiting_recreation.pop(made_for, None)
                for kind in _REMEMBERED:
                    self.stores[kind].forget(made_for)
        elif change.kind in _REMEMBERED and change.new is None:
            made_for = change.meta.owner_labels
            if made_for not in self._returning and self.labeled(change.meta) is None:
                self.stores[change.kind].forget(made_for)

    def resource(self, handle: str) -> Kind:
        """One of our own kinds by its handle. Raises KeyError for others."""
        return self._resources[handle]

    @property
    def served(self) -> frozenset[str]:
        """Handles of the kinds of others that the API has, and the same with their versions."""
        kinds = [i.store.kind for i in self.informers if i.served and i.store.kind in OTHERS]
        return frozenset(name for kind in kinds for name in (kind.handle, kind.versioned))

    def forbidden(self, namespace: str) -> frozenset[Kind]:
        """Optional kinds that the API has and that the operator may not read there."""
        closed = (informer for informer in self.informers if informer.forbidden)
        return frozenset(each.store.kind for each in closed if each.namespace in (None, namespace))

    def ours(self, handle: str) -> bool:
        """Whether a kind is one of our own."""
        return handle in self._resources

    def target(self, request: Request) -> Target:
        """A resource as something specs may name."""
        return self._resources[request.kind].role, request.namespace, request.name

    def find(self, role: str, namespace: str, name: str) -> Cached | None:
        """A resource of ours as references know it; of several groups' the one that came first."""
        stores = (self.stores[kind] for kind in self._roles.get(role, ()))
        found = (held for store in stores if (held := store.get(namespace, name)))
        return min(found, key=lambda held: held.meta.creation_timestamp, default=None)

    def kinds(self, role: str) -> Sequence[Kind]:
        """The kinds, of several groups, that references to a role mean."""
        return self._roles.get(role, ())

    def held(self, request: Request) -> Cached | None:
        """The resource a request is about."""
        return self.stores[self._resources[request.kind]].get(request.namespace, request.name)

    def rivals(self, request: Request) -> list[tuple[Kind, Cached]]:
        """Resources of other groups that are called the same and would be made of the same objects."""
        role, namespace, name = self.target(request)
        others = (kind for kind in self._roles[role] if kind.handle != request.kind)
        return [(kind, held) for kind in others if (held := self.stores[kind].get(namespace, name))]

    def publish(self, held: Cached, published: Mapping[str, str]) -> bool:
        """Takes in what a resource has to tell its users, ahead of its status, which is written less often.

        Returns whether that is news.
        """
        news = self.published(held) != published
        self._published[held.meta.uid] = dict(published)
        return news

    def published(self, held: Cached) -> Mapping[str, str]:
        """What a resource tells its users; before its first plan, what the one told whose place it took, if any."""
        known = self._published.get(held.meta.uid)
        return known if known is not None else (held.decode().get("status") or {}).get("published") or {}

    def published_before(self, role: str, namespace: str, name: str) -> Mapping[str, str]:
        """What a resource that is gone and comes back published last; empty for others."""
        kind, meta, told = self._awaiting_recreation.get((namespace, role.lower(), fitting(name)), (None, None, {}))
        return told if kind and meta and self.plans.recreates(kind, meta) is not False else {}

    def children(self, request: Request) -> Iterator[tuple[Kind, Cached]]:
        """Everything labeled as made for a resource, whoever controls it now."""
        for kind, store in self.stores.items():
            for child in store.owned(request.namespace, self._resources[request.kind].role, request.name):
                yield kind, child

    def owner(self, child: Meta) -> Request | None:
        """The resource an object was made for, from its controller or, for what is retained, from its labels."""
        controller = child.controller
        if controller is None:
            return self.labeled(child)
        if not self.ours(controller.handle):
            return None
        return Request(controller.handle, child.namespace, controller.name)

    def last_owner(self, child: Meta) -> Request | None:
        """The owner of an object; where that is gone, the one that its labels name."""
        namespace, role, instance = child.owner_labels
        kinds = (kind for kind in self.catalog.resources if kind.role.lower() == role)
        return self.owner(child) or next((Request(kind.handle, namespace, instance) for kind in kinds), None)

    def labeled(self, child: Meta) -> Request | None:
        """The resource an object's labels name, whoever controls it: a pod is its StatefulSet's."""
        namespace, role, instance = child.owner_labels
        for kind in self.catalog.resources:
            if kind.role.lower() == role:
                store = self.stores[kind]
                names = (held.meta.name for held in store if held.meta.namespace == namespace)
                found = instance if store.get(namespace, instance) else None
                if found := found or next((name for name in names if fitting(name) == instance), None):
                    return Request(kind.handle, namespace, found)
        return None

    def endangered(self, change: Change) -> list[Request]:
        """The resource whose volume claim it is, though a StatefulSet may own it, where its deletion began or ended."""
        times = [side and side.meta.deletion_timestamp for side in (change.old, change.new)]
        owner = self.labeled(change.meta) if change.kind is CLAIM and times[0] != times[1] else None
        return [owner] if owner else []

    def warned(self, change: Change) -> Request | None:
        """The resource whose workload, or a pod or volume claim of one, an Event is about."""
        event, namespace = cast("Cached", change.new or change.old).decode(), change.meta.namespace
        if event["kind"] == POD.kind:
            pod = self.pods.get(namespace, event["name"])
            return self.labeled(pod.meta) if pod else None
        if event["kind"] == CLAIM.kind:
            # <claim of the template>-<StatefulSet>-<ordinal>
            stem = event["name"].rpartition("-")[0]
            sets = (held for held in self.stores[STATEFUL_SET] if held.meta.namespace == namespace)
            candidates = [held for held in sets if stem.endswith(f"-{held.meta.name}")]
            held = max(candidates, key=lambda held: len(held.meta.name), default=None)
            return self.owner(held.meta) if held else None
        stores = [store for kind, store in self.stores.items() if kind.kind == event["kind"]]
        held = next((held for store in stores if (held := store.get(namespace, event["name"]))), None)
        return self.owner(held.meta) if held else None

    async def synced(self) -> None:
        """Returns once every store holds what the cluster holds."""
        for informer in self._needed:
            await informer.synced.wait()

    def is_ready(self) -> bool:
        """Whether every store was filled once."""
        return all(informer.synced.is_set() for informer in self._needed)

    @property
    def _needed(self) -> list[Informer]:
        """Those without whom nothing can be planned; Events only say more."""
        return [informer for informer in self.informers if informer.store is not self.warnings]

    async def secret(self, namespace: str, name: str) -> Cached | None:
        """A Secret with its data: ours from the cache, another's fetched. Raises Transient."""
        if ours := self.stores[SECRET].get(namespace, name):
            return ours
        lacks = self.budget.lacks(SECRET, namespace)
        if self.foreign.get(namespace, name) is None and not lacks:
            return None
        live = await self.client.get(SECRET, namespace, name)
        if live is None and lacks:
            return None
        if live is None:
            raise Transient(f"Secret/{name} is being deleted")
        return entry(live, SECRET)


def entry(live: object, kind: Kind) -> Cached:
    """A cache entry of an object an API call returned."""
    return cached(msgspec.json.encode(live), kind)
