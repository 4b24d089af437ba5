"""The operator's engine in a simulated cluster with virtual time, and one resource whose spec users change."""

from __future__ import annotations

import asyncio
import json
import random as global_random
from base64 import b64encode
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any, TypeVar, cast

import structlog

from openstack_operator.cli.preview.finished import granted_status
from openstack_operator.kube import INSTANCE, conditions, fitting
from openstack_operator.kube import KIND as KIND_LABEL
from openstack_operator.plan import NO_PERMISSIONS, Context, MemberReports, Object, Observation, Plan, Service
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.cache.entries import Cached
from openstack_operator.runtime.cache.entries import Request as PassRequest
from openstack_operator.runtime.kubernetes.kinds import SECRET, SERVICE, Kind
from openstack_operator.runtime.reconcile.observers import Observer
from openstack_operator.runtime.reconcile.passes import Result
from openstack_operator.runtime.reconcile.reconcile import Reconciler
from openstack_operator.runtime.serve.manager import Manager
from tests.fields import ROOT
from tests.schedules import api_server
from tests.schedules.api_server import Answer, ApiServer, Event, Request, Stored
from tests.schedules.controllers import Controllers
from tests.schedules.loop import EndlessScheduleError, Process, VirtualLoop, context_of
from tests.schedules.network import Connection, Network

NAMESPACE = "x"
PASSWORD = "drawn"
UNKNOWN_IMAGE = "registry.example.org/unknown:1"
NO_NODE = {"fits": "nothing"}
"""Labels that no node has."""
TOO_MUCH = "10000"
"""Cores that no node has."""
RELEASES = ReleaseFiles(ROOT / "releases")
_CALM = 32.0
"""Seconds without a write after which the operator counts as at rest: it waits 30 for objects that are missing."""
_LONGEST = 900.0
_OPERATOR, _VERSION = "operator", "1"
_BALANCER = "198.51.100.80"
_OTHER_CLOUDS = ("ControlPlane.c5c3.io",)
"""Clouds that make resources of the other names, those of group c5c3.io."""
_WORKLOADS = ("deployments", "statefulsets", "daemonsets", "jobs")

T = TypeVar("T")
Variant = Callable[["World"], None]
"""A change of the operator of a world before it starts."""


def permit(path: str, message: str) -> None:
    """Allow what an administrator may allow."""


PERMISSIONS = replace(NO_PERMISSIONS, refuse=permit)


class _Idle:
    """A pass that does nothing: of resources that only have to be there."""

    async def reconcile(self, request: PassRequest, resource: Cached) -> Result:
        del request, resource
        return Result()

    note_plan = reconcile


class _Observer(Observer):
    """Observations of a world in which no member of a cluster reports its state."""

    async def observe(self, observation: Observation, ctx: Context[Any]) -> Mapping[str, Any]:
        return {} if isinstance(observation, MemberReports) else await super().observe(observation, ctx)


class _Server(ApiServer):
    """An API server that also serves the kinds that are installed on request."""

    served: Sequence[Kind] = ()

    def handle(self, request: Request) -> Answer:
        if request.path != "/apis":
            return super().handle(request)
        groups: dict[str, list[Kind]] = {}
        for kind in self.served:
            groups.setdefault(kind.api_version.partition("/")[0], []).append(kind)
        items = [
            {
                "metadata": {"name": group},
                "versions": [
                    {
                        "version": kinds[0].api_version.partition("/")[2],
                        "resources": [{"resource": each.plural} for each in kinds],
                    }
                ],
            }
            for group, kinds in groups.items()
        ]
        return Answer(200, json.dumps({"kind": "APIGroupDiscoveryList", "items": items}).encode())


class _Workloads(Controllers):
    """Controllers that run what nodes can run."""

    def _finish(self, name: str, workload: str, uid: str) -> None:
        live = self._server.collection(name).objects.get((NAMESPACE, workload))
        if live is None or not cannot_run(live.obj):
            super()._finish(name, workload, uid)
            return
        status = _stuck_status(live.obj)
        if live.obj["metadata"]["uid"] == uid and any(
            (live.obj.get("status") or {}).get(key) != value for key, value in status.items()
        ):
            path, form = f"/apis/x/v1/namespaces/{NAMESPACE}/{name}/{workload}/status", "application/merge-patch+json"
            manager = {"fieldManager": "kube-controller-manager"}
            self._server.handle(Request("PATCH", path, manager, {"status": status}, form, "kcm"))


def _stuck_status(workload: Object) -> Object:
    """Return the status of a workload whose new pods do not start: those before them run on."""
    before, generation = workload.get("status") or {}, workload["metadata"]["generation"]
    ready = {name: before.get(name, 0) for name in ("readyReplicas", "availableReplicas")}
    match workload["kind"]:
        case "Job":
            return {"startTime": "2026-01-01T00:00:00Z", "active": 1, "ready": 0}
        case "DaemonSet":
            return {"observedGeneration": generation, "desiredNumberScheduled": 1, "updatedNumberScheduled": 0}
        case _:
            new = {"observedGeneration": generation, "replicas": workload["spec"].get("replicas", 1), **ready}
            revision = f"{workload['metadata']['name']}-{generation}"
            return {**new, "updatedReplicas": 0, "updateRevision": revision}


def cannot_run(workload: Object) -> bool:
    """Return True if pods of a workload do not start: nobody has their image, or no node takes them."""
    pod = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    amounts = [(each.get("resources") or {}).get("requests", {}).get("cpu") for each in containers]
    is_unknown = any(each.get("image", "").startswith(UNKNOWN_IMAGE.partition(":")[0]) for each in containers)
    return is_unknown or TOO_MUCH in amounts or "fits" in (pod.get("nodeSelector") or {})


class World:
    """A cluster in which one resource of a kind is reconciled, and all others are as good as can be."""

    def __init__(self, service: Service, variant: Variant = lambda _: None) -> None:
        self.service, self.resource = service, service.resource
        self.kind, self.name = Kind.of(self.resource), service.resource.role.lower()
        self.loop = VirtualLoop(Random("loop"), shuffles=False)
        self.server = _Server(self.loop)
        self.network = Network(self.loop, self.server, Random("network"))
        self.network.latency = self.network.lag = 0.001
        self.controllers = _Workloads(self.network)
        self.controllers.slowness = 0.01
        neighbors = [each for each in SERVICES if each.resource.plural != self.kind.plural]
        # A collection has one kind here: of two with the same name, the one that a cloud of this kind makes.
        neighbors.sort(key=lambda each: each.resource.on_request == (service.resource.handle in _OTHER_CLOUDS))
        self._services = [service, *{each.resource.plural: each for each in neighbors}.values()]
        accounts = [each.resource for each in ACTUATORS]
        self.kinds = {each.plural: Kind.of(each) for each in (*(s.resource for s in self._services), *accounts)}
        self.server.served = [*self.kinds.values()]
        # The simulated API server has to know which collections have a generation.
        api_server.STATUS_AND_SPEC.update(self.kinds)
        self.problems: list[str] = []
        """What must not be, at any time."""
        self.writes = 0
        self.deleted: list[str] = []
        """Objects that the operator deleted."""
        self._last_write = 0.0
        self.context: Context[Any] | None = None
        """Of the last plan."""
        self.plan: Plan | None = None
        self.server.on_write.append(self._note_write)
        self.server.on_change.append(self._grant_later)
        self._process = Process(_OPERATOR)
        self._connection = Connection(self.network, self._process)
        self._context = context_of(self._process, self.loop.clock)
        self.manager = self._context.run(self._create)
        self.surroundings: set[tuple[str, str]] = set()
        variant(self)

    def _create(self) -> Manager:
        manager = Manager(
            self._connection.client(),
            self._services,
            ACTUATORS,
            RELEASES,
            [NAMESPACE],
            planner=self._plan_at_once,
            workers=1,
            version=_VERSION,
            permissions=PERMISSIONS,
        )
        passes = manager._passes  # pyright: ignore[reportPrivateUsage]
        for handle in passes:
            if handle != self.kind.handle:
                passes[handle] = _Idle()
        cast("Any", passes[self.kind.handle])._observer = _Observer(manager.world.client, {})
        reporter = manager.engine.reporter
        reporter.clock = reporter.grace_period.clock = self.loop.time
        return manager

    @property
    def reconciler(self) -> Reconciler:
        """The reconciler of the kind."""
        return cast("Reconciler", self.manager._passes[self.kind.handle])  # pyright: ignore[reportPrivateUsage]

    async def _plan_at_once(self, service: Service, context: Context[Any]) -> Plan:
        await asyncio.sleep(0)
        # Each password is the same, so that what follows from one is equal in equal plans.
        self.context = replace(context, draw=lambda: PASSWORD)
        self.plan = None
        self.plan = service.make_plan(self.context)
        return self.plan

    # The world around the operator

    def _note_write(self, request: Request, existing: Stored | None) -> None:
        collection, _, name, sub = request.place
        if request.by != _OPERATOR or collection == "events":
            return
        self._last_write = self.loop.time()
        self.writes += 1
        if (collection, name) in self.surroundings and (collection, name) != (self.kind.plural, self.name):
            self.problems.append(f"{request.method} {request.path}, which is not its own")
        if request.method == "DELETE" and existing is not None and not sub:
            self.deleted.append(f"{collection}/{name}")

    def _grant_later(self, collection: str, event: Event) -> None:
        if collection == "services" and event.new is not None:
            self._balance(event.new.obj)
        kind = self.kinds.get(collection)
        if kind is None or event.new is None or kind.handle == self.kind.handle:
            return
        meta, status = event.new.obj["metadata"], event.new.obj.get("status") or {}
        if meta.get("deletionTimestamp") and meta.get("finalizers"):
            self.network.later(0.01, self._let_go, kind, meta["name"])
        if status.get("observedGeneration") != meta["generation"]:
            self.network.later(0.01, self._grant, kind, meta["name"])

    def _let_go(self, kind: Kind, name: str) -> None:
        """End the deletion of a resource, as those that have a finalizer on it would."""
        if self.server.get(kind.plural, name) is not None:
            patch = {"metadata": {"finalizers": None}}
            self._user("PATCH", _path(kind, name), patch, "application/merge-patch+json")

    def _balance(self, service: Object) -> None:
        """Give a Service the address of a load balancer, if it is to have one."""
        is_balanced = (service.get("spec") or {}).get("type") == "LoadBalancer"
        ingress = [{"ip": _BALANCER}] if is_balanced else []
        if ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress", []) != ingress:
            path = f"{_path(SERVICE, service['metadata']['name'])}/status"
            status, form = {"loadBalancer": {"ingress": ingress}}, "application/merge-patch+json"
            self.network.later(0.01, self._user, "PATCH", path, {"status": status}, form)

    def _grant(self, kind: Kind, name: str) -> None:
        if (live := self.server.get(kind.plural, name)) is not None:
            status = granted_status(live, live["metadata"]["generation"])
            self.write_status(kind, name, {**status, "operatorVersion": _VERSION})

    def write_status(self, kind: Kind, name: str, status: Object) -> None:
        """Write fields of a status."""
        self._user("PATCH", f"{_path(kind, name)}/status", {"status": status}, "application/merge-patch+json")

    def add(self, kind: Kind, name: str, **content: Any) -> None:
        """Create an object that is not of the resource."""
        meta = {"name": name, "namespace": NAMESPACE, "annotations": content.pop("annotations", {})}
        self._user(
            "POST", _path(kind), {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **content}
        )
        self.surroundings.add((kind.plural, name))

    def add_secret(self, name: str, data: Mapping[str, str]) -> None:
        """Create a Secret that every server may get."""
        encoded = {key: b64encode(text.encode(errors="surrogateescape")).decode() for key, text in data.items()}
        self.add(SECRET, name, data=encoded, annotations={"openstack.k8s.io/allowed-hosts": "*"})

    def add_referent(self, kind: Kind, name: str, published: Mapping[str, str]) -> None:
        """Create a resource that is ready and publishes a contract."""
        self.add(kind, name, spec={})
        self.write_status(kind, name, {"published": dict(published)})

    def write(self, spec: Object) -> None:
        """Write the spec of the resource."""
        if self.server.get(self.kind.plural, self.name) is None:
            meta = {"name": self.name, "namespace": NAMESPACE}
            body = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": meta, "spec": spec}
            self._user("POST", _path(self.kind), body)
        else:
            operations = [{"op": "add", "path": "/spec", "value": spec}]
            self._user("PATCH", _path(self.kind, self.name), operations, "application/json-patch+json")

    def _user(self, method: str, path: str, body: Any, content_type: str = "") -> None:
        answer = self.server.handle(Request(method, path, {"fieldManager": "user"}, body, content_type, "user"))
        if answer.code >= 400:
            raise AssertionError(f"{method} {path}: {answer.code} {answer.content[:500]!r}")

    # The course of it

    def start(self) -> None:
        """Start the operator."""
        self._task = self.loop.create_task(self.manager.run(), context=self._context)

    def settle(self, seconds: float = 0.0) -> None:
        """Go on for so many seconds at least, and until the operator is at rest."""
        with self._logs():
            try:
                self.loop.run_until_complete(self._come_to_rest(seconds))
            except EndlessScheduleError as error:
                self.problems.append(str(error))
        if self.loop.errors:
            self.problems += [f"nobody caught {error}" for error in self.loop.errors]
            self.loop.errors.clear()

    async def _come_to_rest(self, seconds: float) -> None:
        self.loop.events = 0
        await asyncio.sleep(seconds)
        began = self._last_write = self.loop.time()
        while (remaining := self._last_write + _CALM - self.loop.time()) > 0:
            if self.loop.time() > began + _LONGEST:
                self.problems.append("it goes on writing")
                return
            await asyncio.sleep(remaining)

    @contextmanager
    def _logs(self) -> Generator[None]:
        def take(_: Any, level: str, event: Any) -> Any:
            self.problems.append(f"logged: {event.get('event')} {event.get('error')} {event.get('frames', '')}")
            raise structlog.DropEvent

        structlog.configure(processors=[take], wrapper_class=structlog.make_filtering_bound_logger(40))
        state = global_random.getstate()
        global_random.seed(1)
        try:
            yield
        finally:
            global_random.setstate(state)
            structlog.reset_defaults()

    def close(self) -> None:
        """End the operator."""
        self._connection.end_process()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.loop.close()

    # The state

    @property
    def live(self) -> Object:
        """The resource as it is."""
        return cast("Object", self.server.get(self.kind.plural, self.name))

    @property
    def verdicts(self) -> dict[str, tuple[str, str, str]]:
        """Status, reason and message of each condition of the resource."""
        return {
            name: (each["status"], each["reason"], each.get("message", ""))
            for name, each in conditions(self.live).items()
        }

    @property
    def is_planned(self) -> bool:
        """True if there is a plan of the present spec."""
        generation = self.live["metadata"]["generation"]
        return self.plan is not None and self.context is not None and self.context.generation == generation

    def children(self) -> dict[str, Object]:
        """Return the objects that the resource made, by collection and name."""
        labels = {KIND_LABEL: self.resource.role.lower(), INSTANCE: fitting(self.name)}
        return {
            f"{collection}/{stored.obj['metadata']['name']}": stored.obj
            for collection, stored in self.server.all()
            if labels.items() <= (stored.obj["metadata"].get("labels") or {}).items() and collection != "events"
        }


def _path(kind: Kind, name: str = "") -> str:
    root = "/api/v1" if kind.api_version == "v1" else f"/apis/{kind.api_version}"
    return f"{root}/namespaces/{NAMESPACE}/{kind.plural}" + (f"/{name}" if name else "")
