"""One schedule carried out, and what must hold of every one."""

from __future__ import annotations

import asyncio
import json
import random as global_random
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, cast

import structlog

from openstack_operator.api import Resource
from openstack_operator.kube import KIND, MANAGED_BY, RETAIN, conditions
from openstack_operator.plan import Context, Object, Plan
from openstack_operator.plan.fence import check_fence
from openstack_operator.plan.service import Service
from openstack_operator.runtime.cache.informer import Informer
from openstack_operator.runtime.kubernetes.errors import LeadershipLostError
from openstack_operator.runtime.reconcile.report import REFUSED_AGAIN
from openstack_operator.runtime.serve.leader import Leader
from openstack_operator.runtime.serve.manager import Manager
from tests.cluster import toy

from . import services
from .api_server import ApiServer, Event, Request, Stored
from .controllers import Controllers
from .loop import PROCESS, EndlessScheduleError, Process, VirtualLoop, context_of, stand_still
from .network import WEBHOOKS, Connection, Network
from .schedule import LENGTH, Action, Schedule

GROUP = "/apis/openstack.k8s.io/v1alpha1/namespaces/x"
_CALM = 30.0
"""Seconds without a write after which the operator counts as at rest."""
_LONGEST = 580.0
"""Seconds until the end state has to be there: before the operator looks again at everything for no reason."""
# Lists are renewed within that time, too, which nothing else shows to be wrong.
Informer.watch_seconds, Informer.trusted_seconds = 200, 160
_UNAWARE = 10.0
"""Seconds in which two processes may act after etcd was put back to a snapshot from before the first write of any, or
from before the one that leads took the lease.
"""
_ANSWERS = 0.3, 9.0
"""Longest time that the server of accounts takes for an answer: mostly, and at times."""
_STRANGER = "stranger"
_KINDS = {
    "accounts",
    "apps",
    "configmaps",
    "daemonsets",
    "deployments",
    "jobs",
    "persistentvolumeclaims",
    "secrets",
    "servers",
    "services",
    "stacks",
    "statefulsets",
}
"""Kinds of which there is an object. Operators follow no others: the stores of those are empty in any case."""
_OWN = ("events", "leases")
"""Collections of which nothing belongs to a resource."""

Variant = Callable[[Manager], None]
"""A change of an operator before it starts."""


@dataclass
class Outcome:
    """What became of a schedule."""

    schedule: Schedule
    problems: list[str] = field(default_factory=list[str])
    trace: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """What happened, with the time of it."""
    events: int = 0
    writes: int = 0
    seconds: float = 0.0
    """Virtual ones until it was at rest."""


async def plan_at_once(service: Service, context: Context[Any]) -> Plan:
    """Return the plan of a service, made in this thread."""
    await asyncio.sleep(0.005)
    return service.make_plan(context)


@dataclass
class WatchedRemote(toy.Remote):
    """The server of accounts, which notes who changes it. Each request takes time, as it does for actuators."""

    on_look: Callable[[str], None] = lambda _: None
    on_change: Callable[[str], None] = lambda _: None
    delay: Callable[[], float] = lambda: 0.0

    def ensure(self, ctx: Context[toy.AccountSpec]) -> Sequence[str]:
        self._send(self.on_look)
        stand_still(self.delay())
        self._send(self.on_change)
        changes = super().ensure(ctx)
        stand_still(self.delay())
        return changes

    def remove(self, ctx: Context[toy.AccountSpec]) -> None:
        self._send(self.on_look)
        stand_still(self.delay())
        self._send(self.on_change)
        super().remove(ctx)
        stand_still(self.delay())

    def _send(self, note: Callable[[str], None]) -> None:
        check_fence()
        process = PROCESS.get()
        note(process.name if process else "")


class Life:
    """One process of the operator, from its start to its end."""

    def __init__(self, simulation: Simulation, name: str, dies_after: int, stops_after: int) -> None:
        loop = simulation.loop
        self.began = loop.time()
        self.process = Process(name)
        self.connection = Connection(simulation.network, self.process)
        self.connection.dies_after = dies_after
        self.connection.stops_after = stops_after
        self.connection.on_death = self.connection.on_stop = self._end
        self._context = context_of(self.process, loop.clock)
        self.manager: Manager = self._context.run(self._create, simulation)
        self.task = loop.create_task(self.manager.run(), context=self._context)
        self.task.add_done_callback(lambda task: simulation.network.around.run(simulation.on_end, self, task))

    def _create(self, simulation: Simulation) -> Manager:
        client, name = self.connection.client(), self.process.name
        manager = Manager(
            client,
            services.SERVICES,
            toy.actuators(simulation.remote, 3600),
            lambda _: toy.RELEASE,
            ["x"],
            leader=Leader(client, "x", name, clock=simulation.loop.time) if simulation.schedule.leads else None,
            planner=plan_at_once,
            workers=3,
            version="1",
        )
        world = manager.world
        world.informers = [each for each in world.informers if each.store.kind.plural in _KINDS]
        reporter = manager.engine.reporter
        reporter.clock = reporter.grace_period.clock = simulation.loop.time
        simulation.variant(manager)
        return manager

    def _end(self) -> None:
        self.task.cancel()

    def look_again(self) -> None:
        """Queue every resource."""
        for request in self.manager._wakeups.requests(self.manager.world.catalog.resources):  # pyright: ignore[reportPrivateUsage]
            self.manager._queues[request.kind].add(request)  # pyright: ignore[reportPrivateUsage]


class Simulation:
    """The world of one schedule."""

    def __init__(
        self, schedule: Schedule, expected: Mapping[str, Any] | None = None, variant: Variant = lambda _: None
    ) -> None:
        """Take the state that is expected in the end; None for a schedule that shows it."""
        self.schedule, self._expected, self.variant = schedule, expected, variant
        self.random = Random(f"{schedule.seed} run")
        self.loop = VirtualLoop(Random(f"{schedule.seed} loop"), shuffles=schedule.shuffles)
        self.server = ApiServer(self.loop)
        self.network = Network(self.loop, self.server, Random(f"{schedule.seed} network"))
        self.controllers = Controllers(self.network)
        self.remote = WatchedRemote(
            on_look=self._stop_during_look, on_change=self._judge_remote, delay=self._delay_of_remote
        )
        self.outcome = Outcome(schedule, trace=self.network.trace)
        self.lives: list[Life] = []
        self._crashes: list[int] = [n for each in schedule.actions if each.what == "crash" for n in each.details]
        self._stops: list[int] = [n for each in schedule.actions if each.what == "stop" for n in each.details]
        self._names = 0
        self._snapshot: Any = None
        self._holder = ""
        """Who wrote the lease last as its holder."""
        self.last_write = 0.0
        self._unaware_until = -1.0
        self._witnesses: set[str] | None = None
        """Processes that may have seen a lease lapse before the restore, and its next holder not; None if any process
        may take the lease unaware of another."""
        self._passwords: set[str] = set()
        self._is_over = self._is_removed = False
        self._stranger: Object | None = None
        self._size, self._options = 1, dict[str, str]()
        self.server.on_write.append(self._judge_write)
        self.server.on_change.append(self._follow)

    # What is judged while it goes on

    def problem(self, text: str) -> None:
        """Note what must not be."""
        self.network.note(f"PROBLEM: {text}")
        self.outcome.problems.append(text)

    def _judge_write(self, request: Request, existing: Stored | None) -> None:
        if not request.by.startswith("operator-"):
            return
        collection = request.place[0]
        if collection == "leases":
            return
        self.last_write = self.loop.time()
        self.outcome.writes += 1
        if self._must_lead() and self._holder != request.by:
            self.problem(f"{request.by} writes {request.path} while {self._holder or 'nobody'} leads")
        if existing is not None and _is_of_others(existing.obj) and collection != "events":
            self.problem(f"{request.by} writes {request.method} {request.path}, which belongs to others")
        if request.method == "DELETE" and existing is not None:
            uid = ((request.body or {}).get("preconditions") or {}).get("uid")
            annotations = existing.obj["metadata"].get("annotations") or {}
            if not uid:
                self.problem(f"{request.by} deletes {request.path} whatever it is")
            elif uid == existing.obj["metadata"]["uid"] and annotations.get(RETAIN) == "true":
                self.problem(f"{request.by} deletes {request.path}, which is to be retained")

    def _must_lead(self) -> bool:
        """Return True if at most one process may act. One that starts in a cluster without a trace of another takes the
        lease, and so does one that saw a lease lapse; neither can know of one that took it before a restore to this
        state. That one notices as it renews the lease, within seven seconds.
        """
        return self.schedule.leads and self.loop.time() > self._unaware_until

    def _judge_remote(self, name: str) -> None:
        if self._must_lead() and self._holder not in ("", name):
            self.problem(f"{name} changes the server of accounts while {self._holder} leads")

    def _stop_during_look(self, name: str) -> None:
        """Tell a process to stop while it waits for the server of accounts, if its schedule has that."""
        for life in self.lives:
            connection = life.connection
            if life.process.name == name and connection.stops_after == 0 and not connection.is_dead:
                connection.stops_after = -1
                self.network.note(f"{name} is told to stop as it asks the server of accounts")
                self.network.later(0, connection.on_stop)

    def _delay_of_remote(self) -> float:
        usual, longest = _ANSWERS
        return longest if self.random.random() < 0.05 else self.random.uniform(0.01, usual)

    def _is_untouched(self) -> bool:
        """Return True if no operator has written anything but its lease and Events."""
        writers = (manager for name, each in self.server.all() if name not in _OWN for manager, *_ in each.managers)
        return MANAGED_BY not in writers

    def _follow(self, collection: str, event: Event) -> None:
        if collection == "leases" and event.new:
            self._holder = event.new.obj["spec"].get("holderIdentity") or ""
            if self._holder and self._witnesses is not None and self._holder not in self._witnesses:
                self._unaware_until = -1.0
        if collection == "secrets" and event.new and event.new.obj["metadata"]["name"] == "server-password":
            self._passwords.add(json.dumps(event.new.obj.get("data")))

    # Processes

    def start(self) -> None:
        """Start one operator."""
        if self._is_over or len(self.lives) >= self.schedule.replicas:
            return
        self._names += 1
        dies_after = self._crashes.pop(0) if self._crashes else -1
        self.network.note(f"operator-{self._names} starts")
        stops_after = self._stops.pop(0) if self._stops and dies_after < 0 else -1
        self.lives.append(Life(self, f"operator-{self._names}", dies_after, stops_after))

    def on_end(self, life: Life, task: asyncio.Task[None]) -> None:
        """Note the end of an operator, and start another."""
        self.lives.remove(life)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LeadershipLostError):
            # It begins again as another program, which ends its threads.
            life.process.is_dead = True
        if error is not None and not isinstance(error, LeadershipLostError):
            self.problem(f"{life.process.name} ended with {error!r}")
        self.network.note(f"{life.process.name} ended {error or ''}")
        if not self._is_over:
            self.network.later(self.random.uniform(0.2, 4), self.start)

    # Users

    def user(self, method: str, path: str, body: Any = None, content_type: str = "") -> int:
        """Send a request as a user does."""
        request = Request(method, path, {"fieldManager": "kubectl-edit"}, body, content_type, "user")
        answer = self.server.handle(request)
        self.network.note(f"user {method} {path} {answer.code}")
        return answer.code

    def _write_stack(self) -> None:
        """Write what users want: a stack, or of a small schedule an account and its server."""
        if self._is_removed:
            return
        if self.schedule.is_small:
            self._write(toy.ACCOUNT, "account", {})
            self._write(toy.SERVER, "server", {"replicas": self._size})
        else:
            self._write(toy.STACK, "stack", {"replicas": self._size, "options": self._options})

    def _write(self, resource: Resource[Any], name: str, spec: Object) -> None:
        live = self.server.get(resource.plural, name)
        if live is not None and "deletionTimestamp" in live["metadata"]:
            self.network.later(1, self._write_stack)
        elif live is None:
            meta = {"name": name, "namespace": "x"}
            body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
            self.user("POST", f"{GROUP}/{resource.plural}", body)
        else:
            operations = [{"op": "add", "path": "/spec", "value": spec}]
            path = f"{GROUP}/{resource.plural}/{name}"
            self.user("PATCH", path, operations, "application/json-patch+json")

    def _remove_stack(self) -> None:
        for path in ("servers/server", "accounts/account") if self.schedule.is_small else ("stacks/stack",):
            self.user("DELETE", f"{GROUP}/{path}", {"propagationPolicy": "Background"})

    def do(self, action: Action) -> None:
        """Do what a schedule says."""
        match action.what:
            case "create":
                self._write_stack()
            case "options":
                self._options = {**self._options, "a": str(action.details)}
                self._write_stack()
            case "schema":
                self._options = {**self._options, "schema": str(action.details)}
                self._write_stack()
            case "size":
                self._size = 1 + action.details
                self._write_stack()
            case "recreate" | "remove":
                self._is_removed = action.what == "remove"
                self._remove_stack()
                if action.what == "recreate":
                    self.network.later(self.random.uniform(0, 20), self._write_stack)
            case "delete":
                collection, name = action.details
                self.user("DELETE", f"{GROUP}/{collection}/{name}", {"propagationPolicy": "Background"})
            case "edit":
                self._edit(action.details)
            case "compact":
                self.network.note("etcd is compacted")
                self.server.compact()
            case "snapshot":
                self.network.note(f"snapshot at {self.server.version}")
                self._snapshot = self.server.snapshot(), self._is_untouched()
            case "restore":
                snapshot, is_untouched = self._snapshot
                self.network.note(f"etcd goes back from {self.server.version} to {snapshot[0]}")
                self.server.restore(snapshot)
                lease = self.server.get("leases", MANAGED_BY) or {}
                had_another = (lease.get("spec") or {}).get("holderIdentity", "") != self._holder
                long_ago = self.loop.time() - _UNAWARE
                witnesses = {each.process.name for each in self.lives if each.began < long_ago}
                self._witnesses = None if is_untouched else witnesses
                if is_untouched or had_another:
                    self._unaware_until = self.loop.time() + _UNAWARE
                self.controllers.begin_again()
            case "webhook":
                self._refuse_writes(*action.details)
            case "freeze":
                self._freeze(action.details)
            case _:
                pass

    def _edit(self, what: str) -> None:
        changes = {"replicas": {"spec": {"replicas": 7}}, "image": {"spec": {"paused": True}}}
        if what in changes:
            path, content = "/apis/apps/v1/namespaces/x/deployments/app-api", "application/merge-patch+json"
            self.user("PATCH", path, changes[what], content)
        else:
            body = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "me", KIND: None}}}
            self.user("PATCH", "/api/v1/namespaces/x/services/app-api", body, "application/merge-patch+json")

    def _refuse_writes(self, how: str, seconds: float) -> None:
        self.network.note(f"an admission webhook {how} for {seconds} s")
        self.network.refusal = WEBHOOKS[how]
        self.network.later(seconds, self._end_refusal)

    def _end_refusal(self) -> None:
        self.network.refusal = None

    def _freeze(self, seconds: float) -> None:
        victims = [life for life in self.lives if life.process.name == self._holder] or self.lives
        if victims and not victims[0].process.frozen:
            process = victims[0].process
            self.network.note(f"{process.name} is frozen for {seconds} s")
            self.loop.freeze(process)
            self.network.later(seconds, self._thaw, process)

    def _thaw(self, process: Process) -> None:
        if process.frozen:
            self.network.note(f"{process.name} goes on")
            self.loop.thaw(process)

    # The course of it

    async def run(self) -> None:
        """Carry out the schedule."""
        schedule, network = self.schedule, self.network
        self._plant_strangers()
        network.latency, network.lag, network.chunk = schedule.latency, schedule.lag, schedule.chunk
        for name, value in schedule.rates.items():
            setattr(network, name, value)
        self.controllers.slowness = schedule.slowness
        for index in range(schedule.replicas):
            network.later(index * self.random.uniform(0, 3), self.start)
        for action in schedule.actions:
            await asyncio.sleep(action.at - self.loop.time())
            self.do(action)
        while (
            self.loop.time() < LENGTH
            or self._crashes
            or any(life.connection.dies_after >= 0 and not life.connection.is_dead for life in self.lives)
        ):
            await asyncio.sleep(1)
            if self.loop.time() > LENGTH + 10:
                self._end_crashes()
        await self._end_faults()
        await self._come_to_rest()

    def _end_crashes(self) -> None:
        self._crashes.clear()
        self._stops.clear()
        for life in self.lives:
            life.connection.dies_after = life.connection.stops_after = -1

    async def _end_faults(self) -> None:
        network = self.network
        network.loss = network.cuts = network.stale = network.conflicts = network.overload = 0
        self._end_refusal()
        self._end_crashes()
        network.note("no more faults")
        for life in self.lives:
            self._thaw(life.process)
        if self.schedule.exists:
            self._write_stack()
        else:
            self.do(Action(0, "remove"))

    async def _come_to_rest(self) -> None:
        began = self.loop.time()
        self.last_write = began
        # What a webhook denied is written again after so long.
        calm = _CALM + REFUSED_AGAIN * ("webhook" in self.schedule.faults)
        differing: list[str] = []
        while self.loop.time() < began + _LONGEST:
            await asyncio.sleep(self.last_write + calm - self.loop.time())
            if self.loop.time() < self.last_write + calm:
                continue
            differing = self._differences()
            if not differing:
                break
            await asyncio.sleep(20)
        else:
            self.problem(f"it does not come to its end state: {'; '.join(differing[:4]) or 'it goes on writing'}")
            return
        self.outcome.seconds = self.last_write - began
        rest = self.outcome.writes
        for life in self.lives:
            life.look_again()
        await asyncio.sleep(10)
        if self.outcome.writes != rest:
            self.problem("it writes at rest")
        self._judge_end()

    def _judge_end(self) -> None:
        is_new = any(each.what in ("recreate", "restore", "delete") for each in self.schedule.actions)
        if len(self._passwords) > 1 and not is_new:
            self.problem(f"{len(self._passwords)} passwords of the same server")
        if self.server.get("configmaps", _STRANGER) != self._stranger:
            self.problem("the object of another program changed")

    def _plant_strangers(self) -> None:
        """Create what belongs to others, with the labels of the operator."""
        meta: Object = {"name": _STRANGER, "namespace": "x"}
        self.user(
            "POST",
            "/apis/apps/v1/namespaces/x/daemonsets",
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": {"template": {}}},
        )
        owner = cast("Object", self.server.get("daemonsets", _STRANGER))["metadata"]["uid"]
        reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": _STRANGER, "uid": owner, "controller": True}
        labels = {"app.kubernetes.io/managed-by": MANAGED_BY, KIND: "app", "app.kubernetes.io/instance": "app"}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**meta, "labels": labels, "ownerReferences": [reference]},
        }
        self.user("POST", "/api/v1/namespaces/x/configmaps", body)
        self._stranger = self.server.get("configmaps", _STRANGER)

    def _differences(self) -> list[str]:
        state = self.state()
        if self._expected is None:
            return [] if self._is_finished(state) else ["not ready"]
        if not self.schedule.exists:
            # What is to be retained may never have been made.
            return differences(state, {name: value for name, value in self._expected.items() if name in state})
        return differences(state, self._expected)

    def _is_finished(self, state: Mapping[str, Any]) -> bool:
        tops = ("servers/server", "accounts/account") if self.schedule.is_small else ("stacks/stack",)
        if not self.schedule.exists:
            return not any(name in state for name in tops)
        return all(self._is_ready(state.get(name, {})) for name in tops)

    @staticmethod
    def _is_ready(state: Mapping[str, Any]) -> bool:
        return state.get("conditions", {}).get("Ready", [""])[0] == "True"

    def state(self) -> dict[str, Any]:
        """Return what is there, without what differs from one life of it to another."""
        return {
            f"{name}/{stored.obj['metadata']['name']}": normalized(stored.obj)
            for name, stored in self.server.all()
            if name not in _OWN
        } | ({"accounts out there": sorted(self.remote.accounts)} if self.schedule.exists else {})

    def finish(self) -> None:
        """End all processes."""
        self._is_over = True
        for life in self.lives:
            life.process.is_dead = True
            self._thaw(life.process)
            life.task.cancel()


def _is_of_others(obj: Object) -> bool:
    controllers = [owner for owner in obj["metadata"].get("ownerReferences") or () if owner.get("controller")]
    return any(not owner["apiVersion"].startswith("openstack.k8s.io/") for owner in controllers)


def normalized(obj: Object) -> dict[str, Any]:
    """Return what an object has to be in the end, however it came to that."""
    meta, status = obj["metadata"], obj.get("status") or {}
    annotations = {name for name in meta.get("annotations") or {} if not name.endswith(("/asked", "/last-failure"))}
    spec = json.loads(json.dumps(obj.get("spec") or {}))
    spec.pop("clusterIP", None)
    template = (spec.get("template") or {}).get("metadata") or {}
    template["annotations"] = sorted(template.get("annotations") or {})
    owners = [[each["kind"], each["name"]] for each in meta.get("ownerReferences") or ()]
    return {
        "labels": dict(meta.get("labels") or {}),
        "annotations": sorted(annotations),
        "owners": owners,
        "finalizers": sorted(meta.get("finalizers") or ()),
        "deleting": "deletionTimestamp" in meta,
        "spec": spec,
        "data": sorted(obj.get("data") or {}),
        "conditions": {
            name: [each["status"], each["reason"]] for name, each in conditions(obj).items() if name != "ForeignFields"
        },
        "published": status.get("published"),
        "endpoint": status.get("endpoint"),
    }


def differences(found: Any, expected: Any, path: str = "") -> list[str]:
    """Return where two states differ, a line each."""
    if isinstance(found, dict) and isinstance(expected, dict):
        names = sorted({*cast("dict[str, Any]", found), *cast("dict[str, Any]", expected)})
        return [line for name in names for line in differences(found.get(name), expected.get(name), f"{path}.{name}")]
    return [] if found == expected else [f"{path[1:]}: {found} instead of {expected}"]


@cache
def expected_state(size: int, options: str, exists: bool, is_small: bool) -> str:
    """Return the state in which an undisturbed operator leaves things, as JSON."""
    schedule = Schedule(-1, is_small=is_small, exists=exists)
    schedule.actions = [Action(0, "create")] if exists else [Action(0, "create"), Action(LENGTH, "remove")]
    simulation = Simulation(schedule)
    simulation._options, simulation._size = json.loads(options), size  # pyright: ignore[reportPrivateUsage]
    outcome = carry_out_simulation(simulation)
    assert not outcome.problems, outcome.problems
    return json.dumps(simulation.state())


def carry_out(schedule: Schedule, variant: Variant = lambda _: None) -> Outcome:
    """Carry out a schedule, and return what became of it. `variant` changes each operator."""
    options = json.dumps(schedule.options, sort_keys=True)
    expected = expected_state(schedule.size, options, schedule.exists, schedule.is_small)
    return carry_out_simulation(Simulation(schedule, json.loads(expected), variant))


def carry_out_simulation(simulation: Simulation) -> Outcome:
    """Carry out the schedule of a simulation, and return what became of it."""
    loop, outcome = simulation.loop, simulation.outcome
    state = global_random.getstate()
    global_random.seed(simulation.schedule.seed)
    try:
        with _logs(simulation):
            try:
                loop.run_until_complete(simulation.run())
            except EndlessScheduleError as error:
                simulation.problem(str(error))
            finally:
                simulation.finish()
                loop.end_threads()
                _end(loop)
    finally:
        global_random.setstate(state)
        loop.close()
    for error in loop.errors:
        simulation.problem(f"nobody caught {error}")
    outcome.events = loop.events
    return outcome


def _end(loop: VirtualLoop) -> None:
    """Let canceled tasks end."""
    tasks = loop.pending_tasks()
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))


@contextmanager
def _logs(simulation: Simulation) -> Generator[None]:
    """Take in what the operator logs: faults of its own are problems."""

    def take(_: Any, level: str, event: Any) -> Any:
        if level == "error":
            simulation.problem(f"logged: {event.get('event')} {event.get('error')} {event.get('frames', '')}")
        elif simulation.outcome.schedule.seed >= 0 and SHOWN_LOGS:
            text = " ".join(f"{name}={value}" for name, value in event.items())
            simulation.network.note(f"    {level} {text}")
        raise structlog.DropEvent

    level = 20 if SHOWN_LOGS else 40
    structlog.configure(processors=[take], wrapper_class=structlog.make_filtering_bound_logger(level))
    try:
        yield
    finally:
        structlog.reset_defaults()


SHOWN_LOGS: list[int] = []
"""Seeds that are replayed."""
