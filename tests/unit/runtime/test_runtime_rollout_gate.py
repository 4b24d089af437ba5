"""One workload of a namespace replaces its pods at a time, in the order of references, and none waits without end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openstack_operator.kube import BESIDE
from openstack_operator.plan import Object, Predecessor, Step, Transient, key
from openstack_operator.runtime.cache.entries import Cached, Change, Request, entry
from openstack_operator.runtime.kubernetes.kinds import DAEMON_SET, DEPLOYMENT, STATEFUL_SET, Kind
from openstack_operator.runtime.rollout.gate import (
    LONGEST_WAIT,
    PATIENCE,
    FollowedRollout,
    Required,
    RolloutGate,
    Rollouts,
)

NOW = datetime(2026, 11, 20, tzinfo=UTC)
SECOND = timedelta(seconds=1)
KINDS = {kind.kind: kind for kind in (DEPLOYMENT, STATEFUL_SET, DAEMON_SET)}


def live_workload(kind: Kind, name: str, *, rolls: bool = False, generation: int = 2) -> Cached:
    status: dict[str, dict[str, Any]] = {
        "Deployment": {"replicas": 3 if rolls else 2, "updatedReplicas": 2},
        "StatefulSet": {"currentRevision": "a", "updateRevision": "b" if rolls else "a"},
        "DaemonSet": {"desiredNumberScheduled": 2, "updatedNumberScheduled": 1 if rolls else 2},
    }
    metadata = {"name": name, "namespace": "n", "uid": name, "generation": generation}
    observed = {**status[kind.kind], "observedGeneration": generation}
    return entry({"kind": kind.kind, "metadata": metadata, "spec": {"replicas": 2}, "status": observed}, kind)


def step_of(*workloads: tuple[Kind, str]) -> Step:
    return Step(
        name=workloads[0][1],
        objects=tuple(
            {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}} for kind, name in workloads
        ),
    )


class Cloud:
    """Workloads of one namespace, and the resources that made them."""

    def __init__(self) -> None:
        self.rollouts = Rollouts()
        self.live: dict[tuple[str, str], Cached] = {}
        self.woken: list[Request] = []
        self.forged: set[str] = set()
        self.now = NOW

    def put(self, kind: Kind, name: str, *, rolls: bool = False, generation: int = 2) -> None:
        old = self.live.get((kind.handle, name))
        new = live_workload(kind, name, rolls=rolls, generation=generation)
        self.live[kind.handle, name] = new
        if kind is not DAEMON_SET:
            self.woken += self.rollouts.follow(Change(kind, old, new), self.now)

    def remove(self, kind: Kind, name: str) -> None:
        old = self.live.pop((kind.handle, name))
        self.woken += self.rollouts.follow(Change(kind, old, None), self.now)

    def gate(self, resource: str, *workloads: str, required: Sequence[Required] = (), keeps: str = "") -> RolloutGate:
        """The gate of a pass in which all workloads of a resource but one get another pod template."""
        return RolloutGate(
            self.rollouts,
            Request(f"{resource.capitalize()}.openstack.k8s.io", "n", resource),
            resource,
            self.now,
            find=lambda obj: self.live.get(key(obj)),
            workloads=frozenset(workloads),
            replaces_pods=lambda obj: obj["metadata"]["name"] != keeps,
            required=lambda: required,
            is_made_by_another=lambda rollout: rollout.meta.name not in self.forged,
        )

    async def write(self, gate: RolloutGate, kind: Kind, name: str) -> str:
        """Give a workload another template if the gate lets it, and return what blocks it otherwise."""
        step = step_of((kind, name))

        async def write(_: Step) -> list[Object]:
            before = self.live[kind.handle, name].meta.generation
            self.put(kind, name, rolls=True, generation=before + 1)
            return []

        blocker = gate.blocked_by(step)
        if not blocker:
            await gate.apply(write, step)
        return blocker.name if blocker else ""


API, SCHEDULER, COMPUTE = (DEPLOYMENT, "api"), (STATEFUL_SET, "scheduler"), (DAEMON_SET, "compute")


@pytest.fixture(name="cloud")
def _cloud() -> Cloud:
    cloud = Cloud()
    for kind, name in (API, SCHEDULER, COMPUTE, (DEPLOYMENT, "glance"), (DEPLOYMENT, "keystone")):
        cloud.put(kind, name)
    return cloud


def nova(cloud: Cloud, *required: Required, keeps: str = "") -> RolloutGate:
    return cloud.gate("nova", "api", "scheduler", "compute", required=required, keeps=keeps)


def blockers(gate: RolloutGate, *workloads: tuple[Kind, str]) -> list[str]:
    """The names of what blocks them; empty for those that may go."""
    found = [gate.blocked_by(step_of(each)) for each in workloads]
    return [each.name if each else "" for each in found]


def test_at_rest_each_may_go(cloud: Cloud) -> None:
    gate = nova(cloud)
    assert blockers(gate, API, SCHEDULER, COMPUTE) == ["", "", ""]
    assert gate.retry_after is None


async def test_a_workload_waits_for_what_was_written_in_the_same_pass(cloud: Cloud) -> None:
    gate = nova(cloud)
    assert await cloud.write(gate, *API) == ""
    assert blockers(gate, SCHEDULER, COMPUTE) == ["Deployment/api", "Deployment/api"]


def test_a_rolling_workload_may_change_again_and_one_keeping_pods_goes_on(cloud: Cloud) -> None:
    cloud.put(*SCHEDULER, rolls=True)
    assert blockers(nova(cloud, keeps="compute"), SCHEDULER, COMPUTE, API) == ["", "", "StatefulSet/scheduler"]


def test_a_workload_whose_programs_are_refused_waits_for_no_other(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "glance", rolls=True)
    cloud.put(*SCHEDULER, rolls=True)
    gate = nova(cloud)
    assert gate.blocked_by(replace(step_of(API), urgent=True)) is None
    assert gate.retry_after is None
    assert blockers(nova(cloud), API) == ["StatefulSet/scheduler"]


def test_no_workload_waits_for_nodes(cloud: Cloud) -> None:
    cloud.put(*COMPUTE, rolls=True)
    assert blockers(nova(cloud), API) == [""]


def test_a_roll_out_that_is_stuck_blocks_nothing_until_it_changes(cloud: Cloud) -> None:
    cloud.put(*SCHEDULER, rolls=True)
    cloud.now = NOW + PATIENCE - SECOND
    assert blockers(nova(cloud), API) == ["StatefulSet/scheduler"]
    cloud.now = NOW + PATIENCE
    assert blockers(nova(cloud), API) == [""]
    cloud.put(*SCHEDULER, rolls=True, generation=3)
    assert blockers(nova(cloud), API) == ["StatefulSet/scheduler"]


def test_a_new_workload_waits_for_nothing(cloud: Cloud) -> None:
    cloud.put(*SCHEDULER, rolls=True)
    assert blockers(nova(cloud), (DEPLOYMENT, "metadata")) == [""]


def required(*, queued: bool = False, outdated: bool = False) -> Required:
    return Required("Keystone/keystone", frozenset({"keystone"}), queued=queued, outdated=outdated)


def test_required_workloads_roll_out_first(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "keystone", rolls=True)
    assert blockers(nova(cloud, required()), API) == ["Deployment/keystone"]
    cloud.put(DEPLOYMENT, "keystone")
    assert blockers(nova(cloud, required()), API) == [""]


def test_required_workloads_block_from_their_last_change_and_others_from_their_first(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "keystone", rolls=True)
    cloud.now = NOW + PATIENCE
    cloud.put(DEPLOYMENT, "keystone", rolls=True, generation=3)
    assert blockers(nova(cloud, required()), API) == ["Deployment/keystone"]
    assert blockers(nova(cloud), API) == [""]
    cloud.put(DEPLOYMENT, "keystone", generation=3)
    cloud.put(DEPLOYMENT, "keystone", rolls=True, generation=4)
    assert blockers(nova(cloud), API) == ["Deployment/keystone"], "a new roll-out"


@pytest.mark.parametrize(("state", "seconds"), [({"queued": True}, 0.5), ({"outdated": True}, 10)])
def test_a_required_resource_that_may_have_pods_to_replace_comes_first(
    cloud: Cloud, state: dict[str, bool], seconds: float
) -> None:
    gate = nova(cloud, required(**state))
    assert blockers(gate, API) == ["Keystone/keystone"]
    assert gate.retry_after == seconds


def test_workloads_of_a_namespace_roll_out_one_at_a_time(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "glance", rolls=True)
    gate = nova(cloud)
    assert blockers(gate, API) == ["Deployment/glance"]
    assert gate.retry_after == 10
    cloud.put(DEPLOYMENT, "glance")
    assert blockers(nova(cloud), API) == [""]


def test_a_workload_that_no_plan_has_blocks_nothing(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "glance", rolls=True)
    cloud.forged.add("glance")
    assert blockers(nova(cloud), API) == [""]


async def test_two_passes_do_not_begin_in_the_same_moment(cloud: Cloud) -> None:
    gate, other = nova(cloud), cloud.gate("glance", "glance")
    step = step_of(API)
    assert gate.blocked_by(step) is None
    assert blockers(other, (DEPLOYMENT, "glance")) == ["Deployment/api"]

    async def refused(_: Step) -> list[Object]:
        raise Transient("quota")

    for _ in range(3):
        # However often it is refused: between the tries others may go.
        assert gate.blocked_by(step) is None
        with pytest.raises(Transient):
            await gate.apply(refused, step)
    gate.close()
    assert blockers(cloud.gate("glance", "glance"), (DEPLOYMENT, "glance")) == [""]


def test_a_step_with_a_waiting_workload_does_not_hold_the_gate(cloud: Cloud) -> None:
    cloud.put(*SCHEDULER, rolls=True)
    gate = nova(cloud)
    assert gate.blocked_by(step_of(SCHEDULER, API)) == Predecessor("StatefulSet/scheduler", NOW + PATIENCE)
    cloud.put(*SCHEDULER)
    assert blockers(cloud.gate("glance", "glance"), (DEPLOYMENT, "glance")) == [""]


async def test_resources_have_their_turns_in_the_order_in_which_they_came(cloud: Cloud) -> None:
    """However many workloads the first one has, and whoever looks first: at most one rolls out at any time."""
    workloads = {"nova": [API, SCHEDULER], "glance": [(DEPLOYMENT, "glance")], "keystone": [(DEPLOYMENT, "keystone")]}
    old = {name for each in workloads.values() for _, name in each}
    order: list[str] = []
    for _ in range(4):
        for resource, own in workloads.items():
            gate = cloud.gate(resource, *(name for _, name in own))
            for kind, name in own:
                if name in old and await cloud.write(gate, kind, name) == "":
                    order.append(name)
                    old.discard(name)
            gate.close()
        [rollout] = cloud.rollouts.of_namespace("n")
        cloud.woken.clear()
        cloud.put(rollout.kind, rollout.meta.name, generation=rollout.meta.generation)
        assert len(cloud.woken) == len([own for own in workloads.values() if {n for _, n in own} & old])
    assert order == ["api", "glance", "keystone", "scheduler"]


async def test_a_resource_that_does_not_look_any_more_loses_its_turn(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "keystone", rolls=True)
    for gate in (nova(cloud), cloud.gate("glance", "glance")):
        gate.blocked_by(step_of((DEPLOYMENT, "glance"), API))
        gate.close()
    cloud.put(DEPLOYMENT, "keystone")
    assert [request.name for request in cloud.woken] == ["nova", "glance"]
    late = cloud.gate("glance", "glance")
    assert blockers(late, (DEPLOYMENT, "glance")) == ["Nova/nova"]
    late.close()
    cloud.now = NOW + timedelta(seconds=30)
    assert blockers(cloud.gate("glance", "glance"), (DEPLOYMENT, "glance")) == [""]


def test_a_resource_gives_its_place_to_one_that_it_requires(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "glance", rolls=True)
    for gate in (nova(cloud), cloud.gate("keystone", "keystone")):
        gate.blocked_by(step_of(API, (DEPLOYMENT, "keystone")))
        gate.close()
    cloud.put(DEPLOYMENT, "glance")
    gate = nova(cloud, required(outdated=True))
    assert blockers(gate, API) == ["Keystone/keystone"]
    gate.close()
    assert blockers(cloud.gate("keystone", "keystone"), (DEPLOYMENT, "keystone")) == [""]


def test_a_resource_that_is_gone_waits_no_longer(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "keystone", rolls=True)
    gate = nova(cloud)
    assert blockers(gate, API) == ["Deployment/keystone"]
    gate.close()
    cloud.rollouts.outdated["nova"] = NOW
    cloud.rollouts.forget("nova")
    cloud.remove(DEPLOYMENT, "keystone")
    assert (cloud.woken, cloud.rollouts.outdated) == ([], {})
    assert cloud.rollouts.first_in_line("n", NOW) is None


def test_the_end_of_a_workload_ends_its_roll_out(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "keystone", rolls=True)
    old = cloud.live["Deployment", "keystone"]
    assert cloud.rollouts.of_namespace("n") == [FollowedRollout(DEPLOYMENT, old.meta, NOW, NOW)]
    anew = entry({**old.decode(), "metadata": {**old.decode()["metadata"], "uid": "anew"}}, DEPLOYMENT)
    cloud.rollouts.follow(Change(DEPLOYMENT, old, anew), NOW + SECOND)
    assert cloud.rollouts.of_namespace("n") == [FollowedRollout(DEPLOYMENT, anew.meta, NOW + SECOND, NOW + SECOND)]
    cloud.rollouts.follow(Change(DEPLOYMENT, anew, None), NOW)
    assert cloud.rollouts.of_namespace("n") == []


def test_a_wait_names_the_time_at_which_it_ends(cloud: Cloud) -> None:
    cloud.put(*API, rolls=True)
    cloud.now = NOW + timedelta(minutes=2)
    cloud.put(*API, rolls=True, generation=5)
    own = nova(cloud).blocked_by(step_of(SCHEDULER))
    assert own == Predecessor("Deployment/api", cloud.now + PATIENCE)
    other = cloud.gate("keystone", "keystone").blocked_by(step_of((DEPLOYMENT, "keystone")))
    assert other == Predecessor("Deployment/api", NOW + PATIENCE), "from its beginning"
    cloud.put(*API)
    gate = nova(cloud, required(outdated=True))
    assert gate.blocked_by(step_of(API)) == Predecessor("Keystone/keystone"), "nobody knows how long its turn takes"


def test_consecutive_stuck_rollouts_do_not_block_a_resource_for_good(cloud: Cloud) -> None:
    """As a user makes them who may write one kind: each blocks for five minutes, and then comes the next."""
    for look in range(360):
        if look % 30 == 0:
            cloud.put(DEPLOYMENT, "glance")
            cloud.put(DEPLOYMENT, "glance", rolls=True, generation=3 + look)
        gate = nova(cloud)
        if not gate.blocked_by(step_of(API)):
            break
        gate.close()
        cloud.now += timedelta(seconds=10)
    assert cloud.now - NOW == LONGEST_WAIT


def test_a_resource_that_waited_long_enough_keeps_its_turn(cloud: Cloud) -> None:
    cloud.put(DEPLOYMENT, "glance", rolls=True)
    gate = nova(cloud)
    assert blockers(gate, API) == ["Deployment/glance"]
    gate.close()
    cloud.now = NOW + LONGEST_WAIT
    cloud.put(DEPLOYMENT, "glance")
    cloud.rollouts.begin_write(Request("Keystone", "n", "keystone"), "Deployment/keystone")
    gate = nova(cloud)
    assert blockers(gate, API) == ["Deployment/keystone"]
    gate.close()
    cloud.rollouts.end_write(Request("Keystone", "n", "keystone"))
    cloud.put(DEPLOYMENT, "glance", rolls=True, generation=3)
    assert blockers(nova(cloud), API) == [""]


async def test_optional_workloads_wait_for_none_and_hold_no_gate(cloud: Cloud) -> None:
    cloud.put(*API, rolls=True)
    gate, step = cloud.gate("cloud", COMPUTE[1]), step_of(COMPUTE)
    blocker = gate.blocked_by(step)
    assert blocker
    assert blocker.name == "Deployment/api"
    step.objects[0]["metadata"]["annotations"] = {BESIDE: "true"}
    assert gate.blocked_by(step) is None
    assert not cloud.rollouts.written_by_another(Request("Nova.openstack.k8s.io", "n", "nova"))
