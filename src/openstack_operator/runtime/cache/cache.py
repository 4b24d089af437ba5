"""The objects of the cluster: one store a kind, the informers that fill them, and who made what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

from ...kube import KIND, MANAGED_BY, fitting, missing_size
from ...plan import Transient
from ...plan.node_labels import NodeLabels
from ..kubernetes.client import Client
from ..kubernetes.discovery import PERIOD, Discovery
from ..kubernetes.kinds import NODE, POD, SECRET, STATEFUL_SET, VOLUME_CLAIM, WARNING, Catalog, Kind
from .budget import Budget
from .entries import Cached, Change, Meta, Request, entry, owner_labels
from .informer import Informer
from .nodes import read_node
from .references import Target
from .store import Store
from .trimmed_pods import SELECTOR, trimmed
from .warnings import SELECTOR as WARNINGS
from .warnings import Warnings, warning

_OURS = f"app.kubernetes.io/managed-by={MANAGED_BY}"
_NOT_OURS = f"app.kubernetes.io/managed-by!={MANAGED_BY}"


class Cache:
    """Stores of all kinds, and the informers that fill them."""

    def __init__(
        self,
        client: Client,
        catalog: Catalog,
        namespaces: Sequence[str],
        notify: Callable[[Change], None],
        on_kinds_changed: Callable[[], None] = lambda: None,
        *,
        discovery_period: float = PERIOD,
        node_labels: NodeLabels = "legacy",
    ) -> None:
        """Call `notify` with each change of an object, and `on_kinds_changed` when the API begins or stops to serve an
        optional kind, which is looked for every `discovery_period` seconds. `node_labels` says which labels give Nodes
        their roles.
        """
        self.client, self.catalog = client, catalog
        self._namespaces = frozenset(namespaces)
        self._notify, self._on_kinds_changed = notify, on_kinds_changed
        self.budget = Budget(self._is_ours)
        """Limit of what each namespace may take of these stores."""
        self.stores = {kind: Store(kind, self._take_in, self.budget) for kind in catalog.all}
        self.foreign = Store(SECRET, self._take_in, self.budget)
        """Metadata of Secrets that are not ours; their content is fetched when a spec names one."""
        self.volumes = Store(VOLUME_CLAIM, self._take_in, self.budget)
        """Volume claims that Kubernetes makes for StatefulSets of ours, with the labels of their selectors."""
        self.pods = Store(POD, self._take_in, self.budget)
        """Pods of ours, trimmed to what the operator shows of them."""
        self._resources_in = Counter[str]()
        """Numbers of resources of ours, by namespace."""
        self.warnings = Warnings(WARNING, self._take_in, lambda namespace: self._resources_in[namespace] > 0)
        self.nodes = Store(NODE, self._take_in)
        """Nodes, if a kind looks at them: metadata, and whether they answer."""
        self._resources = {kind.handle: kind for kind in catalog.resources}
        self._roles: dict[str, list[Kind]] = {}
        for kind in catalog.resources:
            self._roles.setdefault(kind.role, []).append(kind)
        optional = (kind for kind in catalog.all if kind.optional)
        self.discovery = Discovery(client, optional, period=discovery_period)
        scopes: Sequence[str | None] = namespaces or (None,)
        self.informers = [informer for scope in scopes for informer in self._informers(scope)]
        external = frozenset(catalog.external)
        self._external_informers = [informer for informer in self.informers if informer.store.kind in external]
        if catalog.on_nodes:
            read = partial(read_node, node_labels=node_labels)
            self.informers.append(Informer(client, self.nodes, read=read))

    def _take_in(self, change: Change) -> None:
        if change.kind in self.catalog.resources:
            self._resources_in[change.meta.namespace] += (change.new is not None) - (change.old is not None)
        self._notify(change)

    def _informers(self, scope: str | None) -> Iterator[Informer]:
        resources: list[Informer] = []
        for kind, store in self.stores.items():
            is_resource, discovery = kind in self.catalog.resources, self.discovery
            informer = Informer(
                self.client,
                store,
                namespace=scope,
                selector="" if is_resource else _OURS,
                discovery=discovery if kind.optional else None,
                on_kinds_changed=self._on_kinds_changed,
                # Where there is too much, objects of existing resources are kept before other objects.
                after=() if is_resource else resources,
            )
            resources += [informer] if is_resource else []
            yield informer
        # An Event about an unknown object could not be assigned to a resource.
        yield Informer(
            self.client,
            self.warnings,
            namespace=scope,
            fields=WARNINGS,
            read=warning,
            after=resources,
            has_bookmarks=False,
        )
        yield Informer(self.client, self.foreign, namespace=scope, selector=_NOT_OURS, metadata_only=True)
        yield Informer(self.client, self.volumes, namespace=scope, selector=f"{KIND},{_NOT_OURS}")
        yield Informer(self.client, self.pods, namespace=scope, selector=SELECTOR, read=trimmed)

    def _is_ours(self, kind: Kind, meta: Meta) -> bool:
        return kind in self.catalog.resources or self.labeled_owner(meta) is not None

    def list_again(self, *kinds: Kind) -> None:
        """List our objects of some kinds again, because an answer contradicts what is kept; once a minute at most."""
        stores = [self.stores[kind] for kind in kinds]
        for informer in self.informers:
            if informer.store in stores:
                informer.list_again()

    def check_complete(self, request: Request) -> None:
        """Raise Transient if objects of that resource are not kept, and list them again: a plan without them would make
        other objects in their place.
        """
        role, namespace, name = self.target(request)
        refused = self.budget.refused_kinds(owner_labels(namespace, role, name))
        if not refused:
            return
        self.list_again(*refused)
        kinds = ", ".join(sorted({kind.plural for kind in refused}))
        full_names = ",".join(sorted({kind.full_name for kind in refused}))
        raise Transient(
            f"the {kinds} of this namespace with the operator's labels exceed"
            f" {self.budget.limit >> 20} MiB; delete what is not the operator's: kubectl get {full_names}"
            f" -n {namespace} -l {_OURS}"
        )

    def serves(self, namespace: str) -> bool:
        """Return True if this process knows the objects of a namespace."""
        return not self._namespaces or namespace in self._namespaces

    def resource(self, handle: str) -> Kind:
        """Return one of our own kinds by its handle. Raises KeyError for other kinds."""
        return self._resources[handle]

    @property
    def installed_kinds(self) -> frozenset[str]:
        """Handles of the kinds of other operators that the API has, and the same with their versions."""
        kinds = [informer.store.kind for informer in self._external_informers if informer.is_served]
        return frozenset(name for kind in kinds for name in (kind.handle, kind.versioned))

    def forbidden_kinds(self, namespace: str) -> frozenset[Kind]:
        """Return the optional kinds that the API has and that the operator may not read in that namespace."""
        closed = (informer for informer in self.informers if informer.is_forbidden)
        return frozenset(each.store.kind for each in closed if each.namespace in (None, namespace))

    def is_ours(self, handle: str) -> bool:
        """Return True if a kind is one of our own."""
        return handle in self._resources

    def target(self, request: Request) -> Target:
        """Return a resource in the form in which specs name it."""
        return self._resources[request.kind].role, request.namespace, request.name

    def find(self, role: str, namespace: str, name: str) -> Cached | None:
        """Return the resource of ours that references mean; of several groups, the resource that was created first."""
        stores = (self.stores[kind] for kind in self._roles.get(role, ()))
        candidates = (resource for store in stores if (resource := store.get(namespace, name)))
        return min(candidates, key=lambda resource: resource.meta.creation_timestamp, default=None)

    def kinds(self, role: str) -> Sequence[Kind]:
        """Return the kinds, of several groups, that references to a role mean."""
        return self._roles.get(role, ())

    def get(self, request: Request) -> Cached | None:
        """Return the resource of a request."""
        return self.stores[self._resources[request.kind]].get(request.namespace, request.name)

    def rivals(self, request: Request) -> list[tuple[Kind, Cached]]:
        """Return resources of other groups that have the same name and would make the same objects."""
        role, namespace, name = self.target(request)
        rival_kinds = (kind for kind in self._roles[role] if kind.handle != request.kind)
        return [(kind, rival) for kind in rival_kinds if (rival := self.stores[kind].get(namespace, name))]

    def children(self, request: Request) -> Iterator[tuple[Kind, Cached]]:
        """Yield each object that is labeled as made for a resource, whatever controls it now."""
        owner = owner_labels(request.namespace, self._resources[request.kind].role, request.name)
        for kind, store in self.stores.items():
            for child in store.of_owner(owner):
                yield kind, child

    def owner(self, child: Meta) -> Request | None:
        """Return the resource an object was made for, by its controller or, for retained objects, by its labels."""
        controller = child.controller
        if controller is None:
            return self.labeled_owner(child)
        if not self.is_ours(controller.handle):
            return None
        return Request(controller.handle, child.namespace, controller.name)

    def last_owner(self, child: Meta) -> Request | None:
        """Return the owner of an object; where that is gone, the resource that its labels name."""
        namespace, role, instance = child.owner_labels
        kinds = (kind for kind in self.catalog.resources if kind.role.lower() == role)
        return self.owner(child) or next((Request(kind.handle, namespace, instance) for kind in kinds), None)

    def labeled_owner(self, child: Meta) -> Request | None:
        """Return the resource an object's labels name, whatever controls it: a StatefulSet controls its pods."""
        namespace, role, instance = child.owner_labels
        for kind in self.catalog.resources:
            if kind.role.lower() == role:
                store = self.stores[kind]
                names = (resource.meta.name for resource in store if resource.meta.namespace == namespace)
                owner_name = instance if store.get(namespace, instance) else None
                if owner_name := owner_name or next((name for name in names if fitting(name) == instance), None):
                    return Request(kind.handle, namespace, owner_name)
        return None

    def volume_owners(self, change: Change) -> list[Request]:
        """Return the resource of a volume claim whose deletion began or ended, or that grows, even if a StatefulSet
        owns the claim.
        """
        if change.kind is not VOLUME_CLAIM:
            return []
        sides = [
            side and (side.meta.deletion_timestamp, missing_size(side.decode())) for side in (change.old, change.new)
        ]
        owner = self.labeled_owner(change.meta) if sides[0] != sides[1] else None
        return [owner] if owner else []

    def event_subject(self, change: Change) -> Request | None:
        """Return the resource to which the workload, pod or volume claim of an Event belongs."""
        event, namespace = cast("Cached", change.new or change.old).decode(), change.meta.namespace
        if event["kind"] == POD.kind:
            pod = self.pods.get(namespace, event["name"])
            return self.labeled_owner(pod.meta) if pod else None
        if event["kind"] == VOLUME_CLAIM.kind:
            # <claim of the template>-<StatefulSet>-<ordinal>
            stem = event["name"].rpartition("-")[0]
            sets = (workload for workload in self.stores[STATEFUL_SET] if workload.meta.namespace == namespace)
            candidates = [workload for workload in sets if stem.endswith(f"-{workload.meta.name}")]
            workload = max(candidates, key=lambda workload: len(workload.meta.name), default=None)
            return self.owner(workload.meta) if workload else None
        stores = [store for kind, store in self.stores.items() if kind.kind == event["kind"]]
        workload = next((workload for store in stores if (workload := store.get(namespace, event["name"]))), None)
        return self.owner(workload.meta) if workload else None

    async def wait_until_synced(self) -> None:
        """Return once every store holds what the cluster holds."""
        for informer in self._required:
            await informer.synced.wait()

    def is_ready(self) -> bool:
        """Return True once every store was filled."""
        return all(informer.synced.is_set() for informer in self._required)

    def is_new(self) -> bool:
        """Return True if no operator has worked in these namespaces: no object is its own, no resource has a status.

        A cluster that was put back to a snapshot of that time looks the same.
        """
        return not any(self._has_trace(kind, each) for kind, store in self.stores.items() for each in store)

    def _has_trace(self, kind: Kind, entry: Cached) -> bool:
        if kind in self.catalog.resources:
            return bool(entry.meta.finalizers) or "status" in entry.decode()
        controller = entry.meta.controller
        return controller is None or self.is_ours(controller.handle)

    @property
    def _required(self) -> list[Informer]:
        """Informers without which nothing can be planned; Events only add details."""
        return [informer for informer in self.informers if informer.store is not self.warnings]

    async def secret(self, namespace: str, name: str) -> Cached | None:
        """Return a Secret with its data: ours from the cache, another's from the API. Raises Transient."""
        if managed := self.stores[SECRET].get(namespace, name):
            return managed
        is_incomplete = self.budget.lacks(SECRET, namespace)
        if self.foreign.get(namespace, name) is None and not is_incomplete:
            return None
        live = await self.client.get(SECRET, namespace, name)
        if live is None and is_incomplete:
            return None
        if live is None:
            raise Transient(f"Secret/{name} is being deleted")
        return entry(live, SECRET)
