"""The operator's passes over a cluster as it would be, until nothing is left to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ... import __version__
from ...kube import MANAGED_BY, judge
from ...parts.connect.external import external_kinds
from ...plan import (
    NO_PERMISSIONS,
    READY,
    Actuator,
    Context,
    MemberReports,
    Object,
    Observation,
    Outcome,
    Permissions,
    Releases,
    Service,
    State,
    Transient,
    Verdict,
)
from ...runtime.cache.entries import Change, Request, entry
from ...runtime.cache.informer import Informer
from ...runtime.cache.world import World
from ...runtime.guards.node_claims import NodeClaims
from ...runtime.kubernetes.errors import Conflict, Forbidden, Missing
from ...runtime.kubernetes.kinds import DAEMON_SET, DEPLOYMENT, JOB, NODE, SECRET, STATEFUL_SET, Catalog, Kind
from ...runtime.reconcile.actuate import ActuatorReconciler
from ...runtime.reconcile.events import Recorder
from ...runtime.reconcile.gather import Gatherer
from ...runtime.reconcile.observers import Observer
from ...runtime.reconcile.passes import Engine, ErrorBoundary, Pass
from ...runtime.reconcile.reconcile import Reconciler
from ...runtime.reconcile.report import Patience, Reporter
from ...runtime.rollout.gate import BLOCKING
from ...runtime.serve.wakeups import Wakeups
from .client import DryRunClient
from .edit import LastApply, apply_manifest, last_apply

_NO_PATIENCE = Patience(initial=0, later=0, retrying=0, missing=0, upgrade=0)
_MOST_PASSES = 40
"""Passes over one resource; a cloud from nothing takes some ten."""
_AT_ONCE = 8
"""Lists that run at a time: a server of a small cluster has other clients."""
_MANAGER = "app.kubernetes.io/managed-by"
_SOON = 15.0
"""Seconds: a resource that asks for its next pass within this time waits for others, and not for a date."""


class Applied(NamedTuple):
    """Result of the apply of one manifest in a preview."""

    last_apply: LastApply | None
    """None for an object that is new: there, each apply does the same."""
    conflict: str = ""
    """Words of the API server about fields that another manager set, and that the preview took over."""


class PreviewError(Exception):
    """The cluster cannot be read, or the passes come to no end."""


class _Members(Observer):
    """An observer that connects to no pod: where the preview runs, they are out of reach, or not to be trusted."""

    async def observe(self, observation: Observation, ctx: Context[Any]) -> Mapping[str, Any]:
        return {} if isinstance(observation, MemberReports) else await super().observe(observation, ctx)

    async def _served(self, ports: Iterable[tuple[str, Object]]) -> list[str]:
        return []


def _ready_unless_failed(verdict: Verdict) -> Verdict:
    """Take all that makes progress by itself for done."""
    return verdict if verdict.state is State.FAILED else READY


def _no_changes(_: Context[Any]) -> Sequence[str]:
    return ()


class Preview:
    """The operator over one namespace, with a client that changes nothing."""

    def __init__(  # noqa: PLR0913  (what a process decides)
        self,
        client: DryRunClient,
        services: Sequence[Service],
        actuators: Sequence[Actuator],
        releases: Releases,
        namespace: str,
        *,
        domain: str = "cluster.local",
        operator_namespace: str,
        permissions: Permissions = NO_PERMISSIONS,
        version: str = __version__,
    ) -> None:
        catalog = Catalog([each.resource for each in (*services, *actuators)], external_kinds(services))
        self._client, self.namespace = client, namespace
        self._queue: dict[Request, None] = {}
        self._later: dict[Request, None] = {}
        self._passes_made: dict[Request, int] = {}
        self._is_loaded = False
        self.notes: list[str] = []
        """Missing parts of the preview, with the reasons."""
        self.world = World(
            client,
            catalog,
            [namespace],
            self._on_change,
            is_pending=self._is_pending,
            node_labels=permissions.node_labels,
        )
        self.world.plans.kinds = tuple(Kind.of(service.resource) for service in services)
        client.world = self.world
        node_claims = NodeClaims(self.world)
        self._wakeups = Wakeups(self.world, node_claims, self.world.plans.kinds)
        gatherer = Gatherer(self.world, releases, domain, operator_namespace, permissions, services)
        reporter = Reporter(self.world, Recorder(client), self._wake, _NO_PATIENCE, version)
        self._engine = Engine(self.world, node_claims, gatherer, reporter, outlook=_ready_unless_failed)
        self._boundary = ErrorBoundary(self._engine)
        self._threads = ThreadPoolExecutor(1, "actuator")
        observer = _Members(client, {})
        quiet = [replace(each, ensure=_no_changes, remove=_no_changes, observe=_observed(each)) for each in actuators]
        self._passes: dict[str, Pass] = {
            **{Kind.of(each.resource).handle: Reconciler(each, self._engine, observer) for each in services},
            **{Kind.of(each.resource).handle: ActuatorReconciler(each, self._engine, self._threads) for each in quiet},
        }

    async def load(self) -> None:
        """Read the namespace, and take what is under way for finished. Raises PreviewError for a kind that cannot be
        read.
        """
        discovery = asyncio.ensure_future(self.world.discovery.run())
        limit = asyncio.Semaphore(_AT_ONCE)

        async def fill(informer: Informer) -> None:
            async with limit:
                try:
                    await informer.list_once()
                except (Forbidden, Missing, Transient) as error:
                    if informer.store.kind is NODE and isinstance(error, Forbidden):
                        self.notes.append(f"{error}; effects of Nodes and their labels are not shown")
                        return
                    raise PreviewError(f"cannot list {informer.store.kind.full_name}: {error}") from None

        try:
            await asyncio.gather(*map(fill, self.world.informers))
        finally:
            discovery.cancel()
            await asyncio.gather(discovery, return_exceptions=True)
        for kind in (DEPLOYMENT, STATEFUL_SET, DAEMON_SET, JOB):
            for workload in self.world.stores[kind]:
                verdict = judge(live := workload.decode())
                if not verdict.ready and verdict.state is not State.FAILED:
                    self._client.finish(kind, live)
        self._is_loaded = True

    async def apply(self, kind: Kind, manifest: Object) -> Applied:
        """Apply a manifest as a user would, as it was applied before. Raises SpecError if the API
        server refuses it.
        """
        whole = {**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}}
        live = await self._client.get(kind, self.namespace, manifest["metadata"]["name"])
        if live is None:
            await self.change(kind, whole)
            return Applied(None)
        previous = last_apply(live)
        if not previous.is_by_server:
            await self.change(kind, apply_manifest(live, whole))
            return Applied(previous)
        self._client.remember(kind, live)
        conflict = ""
        try:
            new = await self._client.apply_as_user(kind, whole, previous.manager, force=False)
        except Conflict as error:
            conflict = str(error).partition(": 409 ")[2]
            new = await self._client.apply_as_user(kind, whole, previous.manager, force=True)
        self._take_in(kind, new)
        return Applied(previous, conflict)

    async def change(self, kind: Kind, desired: Object) -> Object:
        """Make a resource as a user would, and return it. Raises SpecError if the API server refuses it."""
        metadata = desired["metadata"]
        if live := await self._client.get(kind, self.namespace, metadata["name"]):
            self._client.remember(kind, live)
            versioned = {**desired, "metadata": {**metadata, "resourceVersion": live["metadata"]["resourceVersion"]}}
            new = await self._client.replace(kind, versioned)
        else:
            new = await self._client.create(kind, {**desired, "metadata": {**metadata, "namespace": self.namespace}})
        self._take_in(kind, new)
        return new

    def _take_in(self, kind: Kind, new: Object) -> None:
        is_foreign = kind is SECRET and (new["metadata"].get("labels") or {}).get(_MANAGER) != MANAGED_BY
        (self.world.foreign if is_foreign else self.world.stores[kind]).put(entry(new, kind))

    def resources(self) -> list[Object]:
        """Return all resources of ours in the namespace, as they would be by now."""
        return [each.decode() for kind in self.world.catalog.resources for each in self.world.stores[kind]]

    async def settle(self) -> None:
        """Reconcile every resource until all passes change nothing. Raises PreviewError if they come to no end."""
        for request in self._wakeups.requests(self.world.catalog.resources):
            self._wake(request)
        while True:
            while self._queue:
                await self._run(next(iter(self._queue)))
            if not self._later:
                return
            written = len(self._client.written), self._client.version
            self._queue, self._later = self._later, {}
            for request in list(self._queue):
                if request in self._queue:
                    await self._run(request)
            if not self._queue and written == (len(self._client.written), self._client.version):
                return

    async def _run(self, request: Request) -> None:
        del self._queue[request]
        self._passes_made[request] = count = self._passes_made.get(request, 0) + 1
        if count > _MOST_PASSES:
            raise PreviewError(f"{request.kind}/{request.name} does not settle after {_MOST_PASSES} passes")
        result = await self._boundary.run(self._passes[request.kind], request)
        if request not in self._queue and (result.retry or (result.after is not None and result.after <= _SOON)):
            self._later[request] = None

    def _on_change(self, change: Change) -> None:
        self._engine.node_claims.follow(change)
        if change.old and (change.new is None or change.new.meta.uid != change.old.meta.uid):
            self._engine.apply_cache.forget(change.old.meta.uid)
        waiters = self._engine.apply_cache.rollouts.follow(change, datetime.now(UTC)) if change.kind in BLOCKING else []
        if self._is_loaded:
            for request in (*waiters, *self._wakeups.after(change)):
                self._wake(request)

    def _wake(self, request: Request) -> None:
        self._later.pop(request, None)
        self._queue[request] = None

    def _is_pending(self, request: Request) -> bool:
        return request in self._queue


def _observed(actuator: Actuator) -> Callable[[Context[Any]], Outcome] | None:
    """Return a stand-in for what an actuator sees on a server: everything is up."""
    return (lambda _: Outcome(details={"status": "Ready"})) if actuator.observe else None
