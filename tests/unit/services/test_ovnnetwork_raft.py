"""OVN's databases as clusters: they grow and shrink one member at a time, and are created once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.plan import Key, Object, Plan, Release, State
from openstack_operator.services.ovnnetwork import raft
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK
from openstack_operator.services.ovnnetwork.raft import Size, next_size
from openstack_operator.services.ovnnetwork.service import plan
from openstack_operator.testing import context, granted
from tests.planning import rolled_out


def stateful_set(size: int, ready: int) -> Object:
    live = granted(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {"replicas": size}}
    )
    return {**live, "status": {**live["status"], "readyReplicas": ready}}


def result(release: Release, replicas: int, children: dict[Key, Object] | None = None) -> Plan:
    return plan(context(OVN_NETWORK, {"replicas": replicas}, release=release, owner="ovn", children=children or {}))


def recorded(objects: dict[Key, Object], database: str = "nb") -> dict[str, str]:
    return kube.secret_data(objects["Secret", f"ovn-{database}-raft"])


@pytest.mark.parametrize("wanted", range(1, 10))
def test_membership_changes_one_member_at_a_time(wanted: int) -> None:
    for size, ready, behind in itertools.product(range(1, 10), range(10), (-1, 0, 1, None)):
        listed = None if behind is None else size + behind
        if ready > size or listed == 0:
            continue
        then = next_size(wanted, listed, stateful_set(size, ready))
        assert abs(then.pods - size) <= 1
        assert then.listed in {then.pods, then.pods - 1}
        assert then.listed >= 1
        if then.pods > size:
            assert wanted > size
            assert ready == size, "a newcomer must not meet a cluster that lacks someone"
        if then.pods < size:
            assert listed == then.listed == ready == size - 1, "it was asked to leave and has left"
        if then.listed == size - 1 == then.pods - 1 and listed != size - 1:
            assert wanted < size
            assert ready == size, "nobody leaves a cluster that lacks someone"


@pytest.mark.parametrize("start", range(1, 10))
@pytest.mark.parametrize("wanted", range(1, 10))
def test_every_size_is_reached_from_every_other(start: int, wanted: int) -> None:
    size = Size(start, start)
    for _ in range(30):
        # A member that was asked to leave is not ready once it has left.
        size = next_size(wanted, size.listed, stateful_set(size.pods, size.listed))
    assert size == Size(wanted, wanted)


def test_a_leaving_member_leaves_even_if_wanted_again() -> None:
    assert next_size(3, 2, stateful_set(3, 3)) == Size(3, 2)
    assert next_size(3, 2, stateful_set(3, 2)) == Size(2, 2)


@pytest.mark.parametrize(("updated", "observed", "pods"), [(0, 1, 3), (1, 1, 2), (1, 0, 3)])
def test_a_member_that_only_restarts_has_not_left(updated: int, observed: int, pods: int) -> None:
    live = stateful_set(3, 2)
    rolling = {"updateRevision": "db-2", "updatedReplicas": updated, "observedGeneration": observed}
    live["status"].update(rolling)
    assert next_size(1, 2, live) == Size(pods, 2)


def test_without_a_stateful_set_all_that_belong_to_the_cluster_start_together() -> None:
    assert next_size(3, None, None) == Size(3, 3)
    assert next_size(1, 3, None) == Size(3, 3), "what the volumes of a former resource hold"


def test_a_single_member_needs_no_record(release: Release) -> None:
    assert not [kind for kind, _ in rolled_out(result(release, 1)) if kind == "Secret"]


def test_a_second_member_comes_when_the_first_one_runs_with_the_record(release: Release) -> None:
    """The Secret may be written long before the StatefulSet, which waits for its turn."""
    alone = rolled_out(result(release, 1))
    held = ("Secret", "ovn-sb-raft")
    first = result(release, 3, alone)
    waiting = {**alone, held: rolled_out(first)[held]}
    for children in (alone, waiting):
        pods = rolled_out(result(release, 3, children))["StatefulSet", "ovn-sb"]["spec"]
        assert pods["replicas"] == 1
        assert "ovn-db-member" in pods["template"]["spec"]["containers"][0]["command"]
    assert rolled_out(result(release, 3, rolled_out(first)))["StatefulSet", "ovn-sb"]["spec"]["replicas"] == 2


@pytest.mark.parametrize("replicas", [3, 5])
def test_members_start_together_and_the_first_creates_the_cluster(release: Release, replicas: int) -> None:
    made = result(release, replicas)
    objects = rolled_out(made)
    stateful = objects["StatefulSet", "ovn-sb"]["spec"]
    assert (stateful["replicas"], stateful["podManagementPolicy"]) == (replicas, "Parallel")
    held = recorded(objects, "sb")
    assert held["seed"] == "ovn-sb-0.ovn-sb.openstack.svc.cluster.local"
    assert held["members"].split(",") == [f"ovn-sb-{n}.ovn-sb.openstack.svc.cluster.local" for n in range(replicas)]
    assert made.outcome.published["southbound"].count(":6642") == replicas
    assert objects["Deployment", "ovn-northd"]["spec"]["replicas"] == 2
    for name in ("ovn-nb", "ovn-sb", "ovn-northd"):
        assert objects["PodDisruptionBudget", name]["spec"]["maxUnavailable"] == 1


def test_once_there_was_a_cluster_nobody_creates_another(release: Release) -> None:
    children = rolled_out(result(release, 3))
    formed = rolled_out(result(release, 3, children))
    assert recorded(formed)["seed"] == raft.FORMED
    for name in ("ovn-nb", "ovn-sb"):
        formed["StatefulSet", name]["status"]["readyReplicas"] = 0
    assert recorded(rolled_out(result(release, 3, formed)))["seed"] == raft.FORMED
    del formed["StatefulSet", "ovn-nb"]
    assert recorded(rolled_out(result(release, 3, formed)))["seed"] == raft.FORMED


def test_the_record_restarts_no_member(release: Release) -> None:
    children = rolled_out(result(release, 3))
    before = children["StatefulSet", "ovn-nb"]["spec"]["template"]
    larger = rolled_out(result(release, 5, rolled_out(result(release, 3, children))))
    assert recorded(larger)["members"].count(",") == 3
    assert larger["StatefulSet", "ovn-nb"]["spec"]["template"] == before


def test_from_one_to_three_and_back(release: Release) -> None:
    children, sizes = rolled_out(result(release, 1)), list[Any]()
    for wanted in (3,) * 5 + (1,) * 6:
        made = result(release, wanted, children)
        serving = next(step for step in made if step.name == "Northbound")
        children = rolled_out(made)
        held, pods = recorded(children)["members"].count(",") + 1, children["StatefulSet", "ovn-nb"]["spec"]["replicas"]
        sizes.append((pods, held, serving.verdict.state if serving.verdict else State.READY))
        for name in ("ovn-nb", "ovn-sb"):
            children["StatefulSet", name]["status"]["readyReplicas"] = held
    on, ready = State.PROGRESSING, State.READY
    up = [(1, 1, on), (2, 2, on), (3, 3, ready), (3, 3, ready), (3, 3, ready)]
    down = [(3, 2, on), (2, 2, on), (2, 1, on), (1, 1, ready), (1, 1, ready), (1, 1, ready)]
    assert sizes == up + down
