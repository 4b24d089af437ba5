"""The running operator: informers, queues and workers, and the order in which they stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import structlog

from ... import __version__
from ...kube import MANAGED_BY
from ...parts.connect.external import external_kinds
from ...plan import NO_PERMISSIONS, Actuator, Permissions, Releases, Service
from .. import metrics
from ..cache.entries import Change, Request
from ..cache.rewind import Rewinds
from ..cache.world import World
from ..clock import steady
from ..guards.node_claims import NodeClaims
from ..kubernetes.client import Client
from ..kubernetes.discovery import PERIOD
from ..kubernetes.kinds import Catalog, Kind
from ..process import any_of, until_stopped
from ..reconcile.actuate import ActuatorReconciler
from ..reconcile.contents import CloudReader
from ..reconcile.events import Recorder
from ..reconcile.finalizers import is_deletion_pending
from ..reconcile.gather import Gatherer
from ..reconcile.observers import Observer
from ..reconcile.passes import Engine, ErrorBoundary, Pass
from ..reconcile.planning import Planner, make_plan
from ..reconcile.reconcile import Reconciler
from ..reconcile.report import PATIENCE, Patience, Reporter
from ..rollout.gate import BLOCKING
from .exposition import ResourceCollector
from .leader import Leader
from .ports import NO_PORTS, Ports, serve
from .queue import WorkQueue
from .wakeups import Wakeups

_log: structlog.stdlib.BoundLogger = structlog.get_logger()

_COALESCE = 0.01
"""Seconds a change waits for others of the same resource; a roll-out changes a dozen objects at once."""
_QUOTE = 10.0
"""Seconds after which resources that quote a message of another one are looked at, since it says something else."""
_RESYNC = 600.0
"""Seconds after which every resource is looked at again, whatever happened."""


class Manager:
    """The operator as a whole."""

    release_pause = 10.0
    """Seconds between two looks at the release files, each one `stat` a file: far below what a core notices."""

    def __init__(  # noqa: PLR0913  (everything that a process decides)
        self,
        client: Client,
        services: Sequence[Service],
        actuators: Sequence[Actuator],
        releases: Releases,
        namespaces: Sequence[str] = (),
        *,
        leader: Leader | None = None,
        ports: Ports = NO_PORTS,
        workers: int = 16,
        domain: str = "cluster.local",
        is_ipv6: bool = False,
        patience: Patience = PATIENCE,
        version: str = __version__,
        release_versions: Callable[[], object] = tuple,
        permissions: Permissions = NO_PERMISSIONS,
        discovery_period: float = PERIOD,
        planner: Planner = make_plan,
    ) -> None:
        """Require that `release_versions` returns another value once a release file has changed. `discovery_period` is
        the number of seconds between two looks at the kinds that the API serves.
        """
        catalog = Catalog([entry.resource for entry in (*services, *actuators)], external_kinds(services))
        self.world = World(
            client,
            catalog,
            namespaces,
            self._on_change,
            self._wake_all,
            self._is_pending,
            discovery_period=discovery_period,
            node_labels=permissions.node_labels,
        )
        self.world.plans.kinds = tuple(Kind.of(service.resource) for service in services)
        node_claims = NodeClaims(self.world)
        self._wakeups = Wakeups(self.world, node_claims, self.world.plans.kinds)
        self.cluster_domain = domain
        self._client = client
        self._leader = leader
        self._ports, self._workers = ports, workers
        self._release_versions = release_versions
        self._active = False
        self._queues: dict[str, WorkQueue[Request]] = {}
        operator_namespace = leader.namespace if leader else MANAGED_BY
        gatherer = Gatherer(self.world, releases, domain, operator_namespace, permissions, services, is_ipv6=is_ipv6)
        reporter = Reporter(self.world, Recorder(client), self._wake, patience, version)
        engine = self.engine = Engine(self.world, node_claims, gatherer, reporter, planner=planner)
        self._rewinds = Rewinds(self.world, self._judge_anew)
        self._boundary = ErrorBoundary(engine)
        self._threads = ThreadPoolExecutor(workers, "actuator")
        start_tls = {name: each for service in services for name, each in service.start_tls.items()}
        observer = Observer(client, start_tls, CloudReader(self.world, self.world.catalog.definitions))
        self._passes: dict[str, Pass] = {
            **{Kind.of(service.resource).handle: Reconciler(service, engine, observer) for service in services},
            **{Kind.of(each.resource).handle: ActuatorReconciler(each, engine, self._threads) for each in actuators},
        }
        self._queues |= _queues(services, actuators, workers)

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, or until canceled; a write in progress is finished, and no other is begun.

        Raises LeadershipLostError when another replica took over.
        """
        await until_stopped(self._run())

    async def _run(self) -> None:
        text = metrics.exposition(ResourceCollector(self.world, lambda: self._active))
        servers = serve(self._ports, self._client, self.world.is_ready, text)
        try:
            watches = [
                self.world.discovery.run(),
                self._rewinds.run(),
                *(informer.run() for informer in self.world.informers),
            ]
            await any_of(self._lead(), *watches, *servers)
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _lead(self) -> None:
        await self.world.wait_until_synced()
        _log.info("synced", objects=sum(map(len, self.world.stores.values())))
        await (self._leader.lead(self._work, is_new=self.world.is_new) if self._leader else self._work())

    async def _work(self) -> None:
        """Reconcile until canceled."""
        self._active = True
        queues = dict.fromkeys(self._queues.values())
        try:
            workers = (self._worker(queue) for queue in queues for _ in range(self._workers))
            await any_of(self._resync(), self._follow_releases(), *workers)
        finally:
            self._active = False

    async def _worker(self, queue: WorkQueue[Request]) -> None:
        while True:
            request = await queue.get()
            await self._rewinds.wait_until_settled()
            existed = self.world.get(request) is not None
            if not existed:
                # Before the pass, not after it: a change during the pass sets a timer that has to stay.
                queue.drop(request)
            with metrics.ACTIVE.labels(request.kind).track_inprogress():
                result = await self._boundary.run(self._passes[request.kind], request)
            if self.world.get(request) is None:
                queue.forget(request)
                if existed:
                    # Deleted during the pass: another pass cleans up after it.
                    queue.add(request)
            elif result.retry:
                queue.retry(request, slowly=result.slowly)
            else:
                queue.forget(request)
            if result.after is not None:
                queue.add_after(request, result.after)
            queue.task_done(request)

    async def _resync(self) -> None:
        """Look at every resource once, then again every `_RESYNC` seconds, spread over that time; never end."""
        for request in (*self._wakeups.requests(self.world.catalog.resources), *self._pending_deletions()):
            self._queues[request.kind].add(request)
        while True:
            await asyncio.sleep(_RESYNC)
            for request in self._wakeups.requests(self.world.catalog.resources):
                self._queues[request.kind].add_after(request, random.uniform(0, _RESYNC))  # noqa: S311

    async def _follow_releases(self) -> None:
        """Look at every resource each time a release file has changed; never end."""
        versions = self._release_versions()
        while True:
            await asyncio.sleep(self.release_pause)
            before, versions = versions, self._release_versions()
            if versions != before:
                self._wake_all()

    def _pending_deletions(self) -> Iterator[Request]:
        """Yield the owners of the workloads whose deletion is pending."""
        for kind, store in self.world.stores.items():
            for workload in store:
                if is_deletion_pending(kind, workload) and (owner := self.world.last_owner(workload.meta)):
                    yield owner

    def _on_change(self, change: Change) -> None:
        """Wake the resources that a change concerns, except for the resource whose pass made it."""
        self.engine.node_claims.follow(change)
        if change.old and (change.new is None or change.new.meta.uid != change.old.meta.uid):
            self.engine.apply_cache.forget(change.old.meta.uid)
        # Also while another replica acts, so that this one knows when a roll-out began once it takes over.
        waiters = self.engine.apply_cache.rollouts.follow(change, steady()) if change.kind in BLOCKING else []
        if not self._active:
            return
        for request in (*waiters, *self._wakeups.after(change)):
            self._wake(request)
        for request in self._wakeups.quoting(change):
            self._queues[request.kind].add_after(request, _QUOTE)

    def _wake_all(self) -> None:
        """Wake all resources, after an optional kind came or went, or a release file changed; this is rare."""
        for request in self._wakeups.requests(self.world.catalog.resources) if self._active else ():
            self._wake(request)

    def _judge_anew(self) -> None:
        """Forget what passes have learned, and look at everything again: the cluster has an earlier state."""
        self.engine.node_claims.read_again()
        self.engine.apply_cache.forget_all()
        self.engine.reporter.recorder.forget_all()
        self._wake_all()
        for request in self._pending_deletions() if self._active else ():
            self._wake(request)

    def _is_pending(self, request: Request) -> bool:
        return self._queues[request.kind].is_pending(request, _COALESCE)

    def _wake(self, request: Request) -> None:
        self._queues[request.kind].add_after(request, _COALESCE)


def _queues(services: Sequence[Service], actuators: Sequence[Actuator], workers: int) -> dict[str, WorkQueue[Request]]:
    """Return the queue of each kind: threads that wait for a remote side must not keep others from work."""
    local, remote = (
        WorkQueue[Request](name, workers=workers, group=lambda request: request.namespace)
        for name in ("services", "actuators")
    )
    return {
        **{Kind.of(service.resource).handle: local for service in services},
        **{Kind.of(actuator.resource).handle: remote for actuator in actuators},
    }
