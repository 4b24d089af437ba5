"""Workloads replace their pods one after the other, and nobody waits for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from openstack_operator.plan import Object, Step
from openstack_operator.runtime.kinds import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind
from openstack_operator.runtime.store import Cached, Request, Store
from openstack_operator.runtime.turns import PATIENCE, Required, RolloutMemory, Turns
from openstack_operator.runtime.world import entry

NOW = datetime(2026, 11, 20, tzinfo=UTC)
KINDS = {kind.kind: kind for kind in (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)}


def workload(kind: Kind, name: str, *, moving: bool = False, generation: int = 2) -> Cached:
    status: dict[str, dict[str, Any]] = {
        "Deployment": {"replicas": 3 if moving else 2, "updatedReplicas": 2},
        "StatefulSet": {"currentRevision": "a", "updateRevision": "b" if moving else "a"},
        "DaemonSet": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 1 if moving else 2},
    }
    metadata = {"name": name, "namespace": "n", "uid": name, "generation": generation}
    metadata["resourceVersion"] = str(generation)
    told = {**status[kind.kind], "observedGeneration": generation}
    return entry({"kind": kind.kind, "metadata": metadata, "spec": {"replicas": 2}, "status": told}, kind)


class Stage:
    """A resource with some workloads, of which all or some are to have new pods."""

    def __init__(self, *workloads: tuple[Kind, Cached], replaced: set[str] | None = None) -> None:
        self.stores = {kind: Store(kind, lambda _: None) for kind in KINDS.values()}
        self.seen = workloads
        for kind, held in workloads:
            self.put(kind, held)
        self.replaced = replaced
        self.memory = RolloutMemory()
        self.required: list[Required] = []
        self.beside: list[tuple[Kind, Cached]] = []

    def put(self, kind: Kind, held: Cached) -> None:
        self.stores[kind].put(held, by=Request("Nova", "n", "nova"))

    def turns(self, after: timedelta = timedelta()) -> Turns:
        others = (lambda: self.required), (lambda: self.beside)
        return Turns(self.seen, self.stores, self.memory, NOW + after, self.replaces, *others)

    def replaces(self, wanted: Object) -> bool:
        return self.replaced is None or wanted["metadata"]["name"] in self.replaced


def step(kind: Kind, name: str) -> Step:
    return Step(name=name, objects=({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}},))


API, SCHEDULER, COMPUTE = step(DEPLOYMENT, "api"), step(STATEFUL_SET, "scheduler"), step(DAEMON_SET, "compute")


def stage(moving: str = "", replaced: set[str] | None = None) -> Stage:
    pairs = [(DEPLOYMENT, "api"), (STATEFUL_SET, "scheduler"), (DAEMON_SET, "compute")]
    return Stage(*((kind, workload(kind, name, moving=name == moving)) for kind, name in pairs), replaced=replaced)


def test_at_rest_it_is_everybodys_turn() -> None:
    turns = stage().turns()
    assert [turns.before(each) for each in (API, SCHEDULER, COMPUTE)] == ["", "", ""]
    assert turns.again is None


def test_what_was_written_in_the_same_pass_is_waited_for() -> None:
    found = stage()
    turns = found.turns()
    assert turns.before(API) == ""
    # Its controller has not seen the new generation yet.
    unseen = workload(DEPLOYMENT, "api", generation=3).decode()
    unseen["status"]["observedGeneration"] = 2
    found.put(DEPLOYMENT, entry(unseen, DEPLOYMENT))
    assert turns.before(SCHEDULER) == turns.before(COMPUTE) == "Deployment/api"
    assert turns.again == PATIENCE.total_seconds()


def test_one_that_is_on_its_way_may_change_again_and_one_that_keeps_its_pods_is_not_held() -> None:
    turns = stage(moving="scheduler", replaced={"api", "scheduler"}).turns()
    assert turns.before(SCHEDULER) == ""
    assert turns.before(COMPUTE) == ""
    assert turns.before(API) == "StatefulSet/scheduler"


def test_nobody_waits_for_nodes() -> None:
    assert stage(moving="compute").turns().before(API) == ""


def test_a_roll_out_that_is_stuck_holds_nobody_up_and_a_new_one_is_waited_for_again() -> None:
    found = stage(moving="scheduler")
    assert found.turns().before(API)
    late = found.turns(PATIENCE - timedelta(seconds=10))
    assert late.before(API)
    assert late.again == 10
    assert found.turns(PATIENCE).before(API) == ""
    found.put(STATEFUL_SET, workload(STATEFUL_SET, "scheduler", moving=True, generation=3))
    assert found.turns(PATIENCE).before(API)


def test_a_workload_that_is_new_waits_for_nobody() -> None:
    found = stage(moving="scheduler")
    assert found.turns().before(step(DEPLOYMENT, "metadata")) == ""


def keystone(*, moving: bool = False, pending: bool = False, kind: Kind = DEPLOYMENT) -> Required:
    return Required("Keystone/keystone", pending, [(kind, workload(kind, "keystone-api", moving=moving))])


def test_what_a_resource_refers_to_comes_first() -> None:
    found = stage()
    found.required = [keystone(moving=True)]
    turns = found.turns()
    assert turns.before(API) == "Deployment/keystone-api"
    assert turns.again == PATIENCE.total_seconds()
    found.required = [keystone()]
    assert found.turns().before(API) == ""


def test_what_is_pending_may_have_pods_to_replace() -> None:
    found = stage()
    found.required = [keystone(pending=True)]
    turns = found.turns()
    assert turns.before(API) == "Keystone/keystone"
    assert turns.again
    assert turns.again < 1


def test_only_what_is_to_have_new_pods_waits_for_others() -> None:
    found = stage(moving="scheduler", replaced={"scheduler"})
    found.required = [keystone(moving=True, pending=True)]
    turns = found.turns()
    assert [turns.before(each) for each in (API, SCHEDULER, COMPUTE)] == ["", "", ""]
    assert turns.again is None


def test_of_what_is_referred_to_neither_nodes_nor_what_is_stuck_hold_anybody_up() -> None:
    found = stage()
    found.required = [keystone(moving=True, kind=DAEMON_SET)]
    assert found.turns().before(API) == ""
    found.required = [keystone(moving=True)]
    assert found.turns().before(API)
    assert found.turns(PATIENCE).before(API) == ""


def test_a_roll_out_is_stuck_though_nobody_waited_for_it() -> None:
    found = stage(moving="scheduler", replaced=set())
    assert found.turns().before(API) == ""
    found.replaced = {"api"}
    assert found.turns(PATIENCE).before(API) == ""


def glance(*, moving: bool = False, generation: int = 2, kind: Kind = DEPLOYMENT) -> tuple[Kind, Cached]:
    return kind, workload(kind, "glance-api", moving=moving, generation=generation)


def test_one_workload_of_a_namespace_replaces_its_pods_at_a_time() -> None:
    found = stage()
    found.beside = [glance(moving=True)]
    turns = found.turns()
    assert turns.before(API) == "Deployment/glance-api"
    assert turns.again == 1
    found.beside = [glance()]
    assert found.turns().before(API) == ""


def test_nobody_waits_for_nodes_of_others() -> None:
    found = stage()
    found.beside = [glance(moving=True, kind=DAEMON_SET)]
    assert found.turns().before(API) == ""


def test_who_changes_again_and_again_holds_up_none_that_has_no_use_for_it() -> None:
    found = stage()
    found.beside = [glance(moving=True)]
    assert found.turns().before(API)
    found.beside = [glance(moving=True, generation=3)]
    assert found.turns(PATIENCE - timedelta(seconds=1)).before(API)
    assert found.turns(PATIENCE).before(API) == ""
    found.beside = [glance(generation=3)]
    assert found.turns(PATIENCE).before(API) == ""
    found.beside = [glance(moving=True, generation=4)]
    assert found.turns(PATIENCE).before(API)


def test_two_passes_do_not_begin_in_the_same_moment() -> None:
    one, other = stage(), Stage(glance())
    other.memory = one.memory
    one.beside, other.beside = [glance()], [(DEPLOYMENT, workload(DEPLOYMENT, "api"))]
    assert one.turns().before(API) == ""
    turns = other.turns()
    assert turns.before(step(DEPLOYMENT, "glance-api")) == "Deployment/api"
    assert turns.again == 1
    # The write failed, or changed nothing.
    assert other.turns(timedelta(seconds=5)).before(step(DEPLOYMENT, "glance-api")) == ""


def test_what_may_begin_may_go_on() -> None:
    found = stage()
    found.beside = [glance()]
    assert [found.turns().before(API) for _ in range(2)] == ["", ""]
