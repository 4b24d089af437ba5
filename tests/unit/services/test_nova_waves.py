"""nova-compute reaches the nodes of a cloud in waves: a plan says which pods end, a kubelet makes the next ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.api import Model
from openstack_operator.plan import (
    RELEASE_ANNOTATION,
    Key,
    Node,
    Object,
    Plan,
    Release,
    State,
    Step,
    Verdict,
    carry_out,
    conditions,
    key,
)
from openstack_operator.registry import SERVICES
from openstack_operator.services.nova.model import NOVA
from openstack_operator.testing import NOW, context, granted
from tests.planning import copied
from tests.unit.plan.test_upgrade import newer
from tests.unit.services.test_nova import PUBLISHED, SECRETS

OLD, NEW = "2025.1", "2026.1"
RECORD = next(each for each in SERVICES if each.resource is NOVA)
DAEMONS = "nova-cell1-compute"
CANARY = {"canary": "yes"}
TEN = tuple(f"node{number}" for number in range(10))


class Cloud:
    """A Nova whose workloads and jobs finish at once, and nodes on which nova-compute ends and starts on request."""

    def __init__(self, release: Release, nodes: Sequence[str] = TEN, canaries: Sequence[str] = ()) -> None:
        self.releases = {OLD: release, NEW: newer(release, NEW)}
        self.nodes = {name: Node(name, CANARY if name in canaries else {}) for name in nodes}
        self.children: dict[Key, Object] = {}
        self.pods: dict[str, Object] = {}
        """By node."""
        self.spec: dict[str, Any] = {"release": OLD}
        self.running = ""
        self.now: datetime = NOW
        self.slow: set[str] = set()
        """Workloads of the control plane whose pods do not become ready."""
        self.broken: set[str] = set()
        """Nodes where a new nova-compute does not become ready."""
        self.full: set[str] = set()
        """Nodes without room for a new nova-compute."""
        self.restarted: dict[str, str] = {}
        """Annotation of the template, as `kubectl rollout restart` sets it."""
        self.conditions: Mapping[str, Verdict] = {}
        self.details: Mapping[str, Any] = {}
        self.ended: list[str] = []
        self._made = 0
        self.settle()
        self.running = OLD

    def plan(self) -> Plan:
        def of(spec: Model) -> Release:
            return self.releases[str(getattr(spec, "release", OLD))]

        return RECORD.make_plan(
            context(
                NOVA,
                self.spec,
                release=self.releases[self.spec["release"]],
                releases=of,
                published=PUBLISHED,
                secrets=SECRETS,
                running_release=self.running,
                children=copied(self.children),
                pods=[self.pods[name] for name in sorted(self.pods)],
                nodes=self.nodes,
                now=self.now,
            )
        )

    def reconcile(self) -> list[str]:
        """Make one pass, and return the nodes whose pods it ended."""
        plan, ended = self.plan(), len(self.ended)
        kept = {key(obj) for obj in plan.objects}
        verdicts = asyncio.run(carry_out(plan, self._apply, kube.judge, self._is_present))
        self.children = {name: live for name, live in self.children.items() if name in kept}
        self.conditions, self.details = conditions(plan, verdicts), plan.outcome.details
        return self.ended[ended:]

    def settle(self, passes: int = 6) -> None:
        """Make passes, and let Kubernetes do its work after each."""
        for _ in range(passes):
            self.reconcile()
            self.kubelet()

    def wave(self) -> list[str]:
        """Make passes until pods end, and return their nodes; those that end already do so before."""
        self.kubelet()
        for _ in range(4):
            if ended := self.reconcile():
                return ended
            self.observe()
        return []

    async def _apply(self, step: Step) -> Sequence[Object]:
        written = [self._write(copied(obj)) for obj in step.objects]
        for pod in step.ends:
            [name] = [node for node, live in self.pods.items() if live["metadata"]["uid"] == pod["metadata"]["uid"]]
            self.pods[name]["metadata"]["deletionTimestamp"] = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
            self.ended.append(name)
        return written

    def _write(self, obj: Object) -> Object:
        if obj["kind"] == "DaemonSet" and obj["metadata"]["name"] == DAEMONS:
            # An annotation that the operator does not write stays.
            notes(obj["spec"]["template"]).update(self.restarted)
        before = self.children.get(key(obj))
        changed = before is None or before["spec" if "spec" in obj else "metadata"] != obj.get("spec", obj["metadata"])
        generation = (before["metadata"]["generation"] if before else 0) + changed
        uid = "daemons" if key(obj) == ("DaemonSet", DAEMONS) else "other"
        obj["metadata"] = {**obj["metadata"], "generation": generation, "uid": uid}
        if obj["kind"] == "DaemonSet" or obj["metadata"]["name"] in self.slow:
            obj["status"] = before["status"] if before else {}
        else:
            obj = granted(obj)
        self.children[key(obj)] = obj
        return obj

    def _is_present(self, step: Step) -> bool:
        return all(key(obj) in self.children for obj in step.workloads or step.objects)

    def observe(self) -> None:
        """Let the controller of DaemonSets look at them."""
        for (kind, name), live in self.children.items():
            if kind != "DaemonSet":
                continue
            if name != DAEMONS:
                self.children[kind, name] = granted(live)
                continue
            template = notes(live["spec"]["template"])
            pods = list(self.pods.values())
            updated = sum(notes(pod) == template for pod in pods)
            ready = sum(is_ready(pod) for pod in pods)
            counts = {"desiredNumberScheduled": len(self.nodes), "currentNumberScheduled": len(pods)}
            counts |= {"updatedNumberScheduled": updated, "numberReady": ready}
            live["status"] = {"observedGeneration": live["metadata"]["generation"], **counts}

    def kubelet(self) -> None:
        """Let pods end that are to end, and a new one start on each node without one."""
        self.observe()
        live = self.children.get(("DaemonSet", DAEMONS))
        for name in self.nodes:
            if live and ("deletionTimestamp" in self.pods.get(name, {}).get("metadata", {}) or name not in self.pods):
                self.pods[name] = self._pod(name, live["spec"]["template"])
        self.observe()

    def _pod(self, node: str, template: Object) -> Object:
        self._made += 1
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": DAEMONS, "uid": "daemons", "controller": True}
        name = f"{DAEMONS}-{self._made}"
        metadata = {**copied(template["metadata"]), "name": name, "namespace": "openstack", "uid": name}
        created = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
        state = "False" if node in self.broken else "True"
        states = [
            {"type": type_, "status": state, "lastTransitionTime": created} for type_ in ("Ready", "ContainersReady")
        ]
        return {
            "metadata": {**metadata, "creationTimestamp": created, "ownerReferences": [owner]},
            **(_pending(node) if node in self.full else {"spec": {"nodeName": node}, "status": {"conditions": states}}),
        }

    def silence(self, node: str) -> None:
        """Let a node stop to answer: Kubernetes says so of its pod, and its containers stay as they were."""
        self.pods[node]["status"]["conditions"][0]["status"] = "False"

    def roll_out(self, **rollout: Any) -> None:
        self.spec = {**self.spec, "compute": {**self.spec.get("compute", {}), "rollout": rollout}}

    def change(self) -> None:
        """Change an option of nova-compute alone."""
        config = {"DEFAULT": {"cpu_allocation_ratio": len(self.ended) + 2.5}}
        self.spec = {**self.spec, "compute": {**self.spec.get("compute", {}), "config": config}}

    def upgrade(self) -> None:
        """Ask for the new release, and go on until the check has succeeded."""
        self.spec = {**self.spec, "release": NEW}
        for _ in range(2):
            self.reconcile()
            self.observe()

    @property
    def of_release(self) -> dict[str, list[str]]:
        """Return the nodes by the release that their nova-compute runs."""
        found: dict[str, list[str]] = {}
        for node, pod in sorted(self.pods.items()):
            found.setdefault(notes(pod)[RELEASE_ANNOTATION], []).append(node)
        return found

    @property
    def says(self) -> str:
        return self.conditions["ComputeRolloutReady"].message


def notes(obj: Object) -> dict[str, str]:
    return obj["metadata"].get("annotations") or {}


def is_ready(pod: Object) -> bool:
    return "nodeName" in pod["spec"] and pod["status"]["conditions"][0]["status"] == "True"


def _pending(node: str) -> Object:
    """Return what the controller of a DaemonSet writes into a pod, and the scheduler where there is no room for it."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {
        "spec": {"affinity": {"nodeAffinity": required}},
        "status": {"phase": "Pending", "conditions": [condition]},
    }


@pytest.fixture(scope="module")
def settled_cloud(release: Release) -> Cloud:
    found = Cloud(release)
    assert found.conditions["ComputeRolloutReady"].ready
    return found


@pytest.fixture
def cloud(settled_cloud: Cloud) -> Cloud:
    """Return a cloud of ten nodes whose pods all run."""
    return copied(settled_cloud)


def test_kubernetes_leaves_the_pods_to_the_operator(cloud: Cloud) -> None:
    daemons = cloud.children["DaemonSet", DAEMONS]
    assert daemons["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert not cloud.ended


def test_a_change_reaches_one_node_after_the_other(cloud: Cloud) -> None:
    cloud.change()
    assert [cloud.wave() for _ in range(11)] == [*([name] for name in TEN), []]
    assert cloud.conditions["ComputeRolloutReady"].ready


def test_a_node_waits_until_the_pod_of_the_one_before_is_gone(cloud: Cloud) -> None:
    cloud.change()
    assert cloud.wave() == ["node0"]
    assert (cloud.reconcile(), cloud.reconcile()) == ([], [])
    assert "0 of 10 nodes have the change; waits for node node0 (nova-compute ends)" in cloud.says


def test_of_a_single_node_no_numbers_are_given(release: Release) -> None:
    cloud = Cloud(release, nodes=["node0"])
    cloud.change()
    assert cloud.wave() == ["node0"]
    cloud.reconcile()
    assert "the node does not have the change yet" in cloud.says
    assert "of 1" not in cloud.says


def test_no_pod_ends_before_kubernetes_knows_the_new_template(cloud: Cloud) -> None:
    cloud.change()
    assert (cloud.reconcile(), cloud.reconcile()) == ([], [])
    cloud.observe()
    assert cloud.reconcile() == ["node0"]


@pytest.mark.parametrize(("limit", "nodes"), [("3", 3), (3, 3), ("20%", 2), ("11%", 2), ("1%", 1), ("100%", 10)])
def test_as_many_nodes_at_a_time_as_the_spec_says(cloud: Cloud, limit: Any, nodes: int) -> None:
    cloud.roll_out(maxUnavailable=limit)
    cloud.change()
    assert cloud.wave() == list(TEN[:nodes])


def test_a_node_without_a_pod_counts_as_one_that_changes(cloud: Cloud) -> None:
    """Its nova-compute is away already: with it, more nodes than the limit would be without one."""
    cloud.roll_out(maxUnavailable=3)
    cloud.change()
    cloud.reconcile()
    del cloud.pods["node9"]
    cloud.observe()
    assert cloud.reconcile() == ["node0", "node1"]


def test_a_paused_roll_out_goes_on_where_it_was(cloud: Cloud) -> None:
    cloud.roll_out(maxUnavailable=2)
    cloud.upgrade()
    assert cloud.wave() == ["node0", "node1"]
    cloud.roll_out(paused=True)
    assert [cloud.wave() for _ in range(3)] == [[], [], []]
    assert cloud.of_release == {NEW: ["node0", "node1"], OLD: list(TEN[2:])}
    verdict = cloud.conditions["ComputeRolloutReady"]
    assert (verdict.ready, verdict.reason) == (False, "RolloutPaused")
    assert cloud.conditions["Ready"].reason == "RolloutPaused"
    assert "2 of 10 nodes run 2026.1; spec.compute.rollout.paused: the other nodes do not change" in verdict.message
    cloud.roll_out(maxUnavailable=8)
    assert cloud.wave() == list(TEN[2:])


def test_the_status_counts_nodes_by_the_release_that_they_run(cloud: Cloud) -> None:
    assert cloud.details["compute"] == {
        "nodes": 10,
        "updatedNodes": 10,
        "releases": [{"name": OLD, "nodes": 10}],
        "behind": [],
    }
    cloud.upgrade()
    cloud.wave()
    cloud.roll_out(paused=True)
    cloud.wave()
    assert cloud.details["compute"] == {
        "nodes": 10,
        "updatedNodes": 1,
        "releases": [{"name": OLD, "nodes": 9}, {"name": NEW, "nodes": 1}],
        "behind": list(TEN[1:]),
    }


def test_the_status_does_not_grow_with_the_cloud(release: Release) -> None:
    cloud = Cloud(release, [f"node{number:02}" for number in range(30)])
    cloud.roll_out(paused=True)
    cloud.change()
    cloud.wave()
    assert cloud.details["compute"]["updatedNodes"] == 0
    assert cloud.details["compute"]["behind"] == [f"node{number:02}" for number in range(10)]


def test_canaries_come_first_and_the_others_once_all_are_ready(release: Release) -> None:
    cloud = Cloud(release, canaries=("node3", "node7"))
    cloud.roll_out(maxUnavailable="100%", canaries={"nodeSelector": CANARY})
    cloud.change()
    cloud.broken.add("node7")
    assert cloud.wave() == ["node3", "node7"]
    assert cloud.wave() == []
    assert "waits for node node7 (the new nova-compute is not Ready yet)" in cloud.says
    cloud.pods["node7"]["status"]["conditions"] = cloud.pods["node3"]["status"]["conditions"]
    assert len(cloud.wave()) == 8


def test_canaries_alone_until_a_user_goes_on(release: Release) -> None:
    cloud = Cloud(release, canaries=("node3",))
    cloud.roll_out(canaries={"nodeSelector": CANARY, "only": True})
    cloud.upgrade()
    assert [cloud.wave() for _ in range(3)] == [["node3"], [], []]
    assert cloud.of_release[NEW] == ["node3"]
    assert cloud.conditions["ComputeRolloutReady"].reason == "RolloutPaused"
    assert "spec.compute.rollout.canaries.only: only canaries change" in cloud.says
    cloud.roll_out(canaries={"nodeSelector": CANARY})
    assert cloud.wave() == ["node0"]


def test_labels_that_no_node_has_let_no_node_change(cloud: Cloud) -> None:
    cloud.roll_out(canaries={"nodeSelector": {"canary": "no", "b": "c"}})
    cloud.change()
    assert [cloud.wave() for _ in range(3)] == [[], [], []]
    assert "spec.compute.rollout.canaries: no reachable node has the labels b=c,canary=no; label one" in cloud.says


def test_rollout_stops_if_a_new_nova_compute_does_not_start(cloud: Cloud) -> None:
    cloud.roll_out(maxUnavailable=3)
    cloud.broken.add("node1")
    cloud.change()
    assert cloud.wave() == ["node0", "node1", "node2"]
    assert cloud.wave() == ["node3", "node4"], "the limit has room left"
    cloud.now += timedelta(minutes=10)
    assert [cloud.wave() for _ in range(3)] == [[], [], []]
    verdict = cloud.conditions["ComputeRolloutReady"]
    assert verdict.reason == "RolloutStopped"
    pod = cloud.pods["node1"]["metadata"]["name"]
    assert "5 of 10 nodes have the change; roll-out stopped: the new nova-compute has not been Ready" in verdict.message
    assert f"({pod} on node node1); see why by `kubectl logs -n openstack {pod} --previous`" in verdict.message


def test_a_corrected_change_reaches_the_broken_node_first(cloud: Cloud) -> None:
    cloud.broken.add("node0")
    cloud.change()
    assert [cloud.wave(), cloud.wave()] == [["node0"], []]
    cloud.now += timedelta(minutes=20)
    cloud.broken.clear()
    cloud.change()
    assert [cloud.wave(), cloud.wave()] == [["node0"], ["node1"]]


def test_message_of_a_stopped_rollout_tells_how_to_skip_a_node(cloud: Cloud) -> None:
    cloud.broken.add("node0")
    cloud.change()
    cloud.wave()
    cloud.wave()
    cloud.now += timedelta(minutes=10)
    cloud.wave()
    assert cloud.says.endswith("or remove the label openstack-compute-node from that node")


def test_a_new_nova_compute_without_room_has_ten_minutes_too(cloud: Cloud) -> None:
    cloud.full.add("node0")
    cloud.change()
    assert [cloud.wave(), cloud.wave()] == [["node0"], []]
    assert "waits for node node0 (the new nova-compute is not Ready yet)" in cloud.says
    cloud.now += timedelta(minutes=10)
    assert cloud.wave() == []
    verdict = cloud.conditions["ComputeRolloutReady"]
    pod = cloud.pods["node0"]["metadata"]["name"]
    assert verdict.reason == "RolloutStopped"
    assert f"({pod} for node node0); see why by `kubectl describe pod -n openstack {pod}`" in verdict.message


def test_a_nova_compute_without_room_gets_the_corrected_change(cloud: Cloud) -> None:
    before = cloud.spec
    cloud.full.add("node0")
    cloud.change()
    assert [cloud.wave(), cloud.wave()] == [["node0"], []]
    cloud.now += timedelta(minutes=20)
    cloud.full.clear()
    cloud.spec = before
    assert cloud.wave() == ["node0"]
    cloud.settle(2)
    assert cloud.conditions["ComputeRolloutReady"].ready
    assert cloud.ended == ["node0", "node0"]


def test_pods_that_run_nowhere_end_beyond_the_limit(cloud: Cloud) -> None:
    for name in ("node4", "node5", "node6"):
        cloud.pods[name] |= _pending(name)
    del cloud.pods["node6"]["spec"]["affinity"]
    cloud.change()
    assert sorted(cloud.wave()) == ["node4", "node5", "node6"]
    assert [cloud.wave(), cloud.wave()] == [["node0"], ["node1"]]


def test_a_paused_roll_out_names_a_late_canary(release: Release) -> None:
    cloud = Cloud(release, canaries=("node3",))
    cloud.roll_out(canaries={"nodeSelector": CANARY})
    cloud.broken.add("node3")
    cloud.change()
    assert [cloud.wave(), cloud.wave()] == [["node3"], []]
    cloud.roll_out(canaries={"nodeSelector": CANARY}, paused=True)
    cloud.wave()
    assert "has not been Ready since" not in cloud.says
    assert cloud.plan().outcome.wake == NOW + timedelta(minutes=10)
    cloud.now += timedelta(minutes=10)
    assert cloud.wave() == []
    assert cloud.conditions["ComputeRolloutReady"].reason == "RolloutPaused"
    assert cloud.conditions["Ready"].reason != "RolloutPaused"
    assert (
        f"the new nova-compute has not been Ready since {NOW:%H:%M} UTC (nova-cell1-compute-11 on node node3)"
    ) in cloud.says


def test_rollout_wakes_when_it_would_stop(cloud: Cloud) -> None:
    cloud.broken.add("node0")
    cloud.change()
    cloud.wave()
    cloud.wave()
    assert cloud.plan().outcome.wake == NOW + timedelta(minutes=10)


def test_a_node_that_does_not_answer_holds_up_no_other(cloud: Cloud) -> None:
    cloud.silence("node0")
    cloud.change()
    assert [cloud.wave() for _ in range(10)] == [*([name] for name in TEN[1:]), []]
    verdict = cloud.conditions["ComputeRolloutReady"]
    assert not verdict.ready
    assert "9 of 10 nodes have the change; node node0 cannot be reached: repair it" in verdict.message


def test_a_node_that_fails_after_its_change_holds_up_no_other(cloud: Cloud) -> None:
    cloud.change()
    assert cloud.wave() == ["node0"]
    cloud.kubelet()
    cloud.silence("node0")
    cloud.now += timedelta(hours=1)
    assert cloud.wave() == ["node1"]


def test_a_node_lost_while_its_new_pod_starts_delays_no_other(cloud: Cloud) -> None:
    """Its pod was never ready, so that only the Node says so."""
    cloud.broken.add("node0")
    cloud.change()
    assert [cloud.wave(), cloud.wave()] == [["node0"], []]
    cloud.nodes["node0"] = replace(cloud.nodes["node0"], is_away=True)
    assert [cloud.wave() for _ in range(10)] == [*([name] for name in TEN[1:]), []]
    cloud.now += timedelta(hours=1)
    cloud.wave()
    assert cloud.conditions["ComputeRolloutReady"].ready
    assert "9/10 pods ready" in cloud.conditions["Ready"].message
    cloud.nodes["node0"] = replace(cloud.nodes["node0"], is_away=False)
    cloud.change()
    assert cloud.wave() == ["node0"], "what is not ready comes first"


def test_a_roll_out_that_stopped_goes_on_once_the_node_is_away(cloud: Cloud) -> None:
    cloud.broken.add("node0")
    cloud.change()
    assert [cloud.wave(), cloud.wave()] == [["node0"], []]
    cloud.now += timedelta(minutes=10)
    assert cloud.wave() == []
    assert cloud.conditions["ComputeRolloutReady"].reason == "RolloutStopped"
    cloud.nodes["node0"] = replace(cloud.nodes["node0"], is_away=True)
    assert cloud.wave() == ["node1"]


def test_a_node_lost_while_its_old_pod_ends_delays_no_other(cloud: Cloud) -> None:
    for condition in cloud.pods["node0"]["status"]["conditions"]:
        condition["status"] = "False"
    cloud.change()
    assert cloud.reconcile() == []
    cloud.observe()
    assert cloud.reconcile() == ["node0"]
    cloud.nodes["node0"] = replace(cloud.nodes["node0"], is_away=True)
    assert cloud.reconcile() == ["node1"]


def test_pods_of_a_deleted_daemon_set_of_that_name_are_not_counted(cloud: Cloud) -> None:
    for pod in cloud.pods.values():
        pod["metadata"]["ownerReferences"][0]["uid"] = "deleted"
    cloud.change()
    assert [cloud.reconcile() for _ in range(3)] == [[], [], []]
    assert cloud.details["compute"]["updatedNodes"] == 0


def test_no_node_changes_before_the_conductors(cloud: Cloud) -> None:
    """nova-compute of a release needs a conductor of that release."""
    cloud.slow = {"nova-cell1-conductor"}
    cloud.upgrade()
    assert [cloud.wave() for _ in range(3)] == [[], [], []]
    assert "waiting for" in cloud.says
    cloud.children["StatefulSet", "nova-cell1-conductor"] = granted(
        cloud.children["StatefulSet", "nova-cell1-conductor"]
    )
    cloud.slow.clear()
    assert cloud.wave() == ["node0"]


def test_rows_move_only_once_all_nodes_are_new(cloud: Cloud) -> None:
    def completions() -> list[str]:
        return [name for kind, name in cloud.children if kind == "Job" and "complete-upgrade" in name]

    cloud.upgrade()
    for _ in TEN:
        assert cloud.wave()
        assert completions() == []
    cloud.kubelet()
    cloud.settle(2)
    assert completions()
    assert cloud.conditions["Ready"].ready


def test_the_way_back_is_in_waves_too(cloud: Cloud) -> None:
    cloud.roll_out(maxUnavailable=3)
    cloud.upgrade()
    assert cloud.wave() == ["node0", "node1", "node2"]
    cloud.kubelet()
    cloud.spec = {**cloud.spec, "release": OLD}
    assert cloud.wave() == ["node0", "node1", "node2"]
    cloud.settle(2)
    assert cloud.of_release == {OLD: list(TEN)}
    assert cloud.conditions["ComputeRolloutReady"].ready


def test_on_the_way_back_nodes_come_before_the_conductors(cloud: Cloud) -> None:
    """A conductor of the old release does not know what a newer nova-compute sends."""

    def conductor() -> str:
        return notes(cloud.children["StatefulSet", "nova-cell1-conductor"])[RELEASE_ANNOTATION]

    cloud.roll_out(maxUnavailable=2)
    cloud.upgrade()
    assert cloud.wave() == ["node0", "node1"]
    cloud.kubelet()
    cloud.spec = {**cloud.spec, "release": OLD}
    assert (cloud.reconcile(), conductor()) == ([], NEW)
    assert "nodes node0, node1 with nova-compute newer than 2025.1: these go back first" in cloud.says
    assert cloud.wave() == ["node0", "node1"]
    assert conductor() == NEW
    cloud.settle(1)
    assert conductor() == NEW
    cloud.settle(2)
    assert (conductor(), cloud.of_release) == (OLD, {OLD: list(TEN)})


def test_a_node_that_does_not_answer_does_not_bar_the_way_back(cloud: Cloud) -> None:
    cloud.upgrade()
    assert cloud.wave() == ["node0"]
    cloud.kubelet()
    cloud.silence("node0")
    cloud.spec = {**cloud.spec, "release": OLD}
    cloud.settle(3)
    assert notes(cloud.children["StatefulSet", "nova-cell1-conductor"])[RELEASE_ANNOTATION] == OLD


def test_a_restart_by_kubectl_is_in_waves_too(cloud: Cloud) -> None:
    cloud.restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T12:00:00Z"}
    cloud.reconcile()
    assert [cloud.wave() for _ in range(11)] == [*([name] for name in TEN), []]


def test_cells_share_the_limit(release: Release) -> None:
    """A pod of another cell that is not ready counts as well."""
    rollout = kube.RolloutLimits(path="spec.compute.rollout", max_unavailable="2")
    cloud = Cloud(release, ("a", "b", "c"))
    first = cloud.children["DaemonSet", DAEMONS]
    second = {**first, "metadata": {**first["metadata"], "name": "nova-cell2-compute"}}
    pods = copied(list(cloud.pods.values()))
    pods[0]["metadata"]["ownerReferences"][0]["name"] = "nova-cell2-compute"
    changed = [kube.by_node(each, "another") for each in (first, second)]
    live = {key(each): granted(each) for each in changed}
    ctx = replace(context(NOVA, release=release), pods=pods, children=live)
    found = kube.node_rollout(ctx, "nova-compute", changed, rollout)
    assert len(found.ends) == 2
    assert {pod["metadata"]["uid"] for pod in found.ends} < {pod["metadata"]["uid"] for pod in pods}


@pytest.mark.parametrize("is_deleted", [False, True], ids=["another DaemonSet", "a deleted DaemonSet"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_node_that_changes_its_group_waits_for_the_pod_before(cloud: Cloud, order: int, *, is_deleted: bool) -> None:
    """That one may end for half an hour. The new one is no failure, and other nodes change up to the limit."""
    first = cloud.children["DaemonSet", DAEMONS]
    second = {**first, "metadata": {**first["metadata"], "name": "nova-cell1-gpu-compute", "uid": "gpu"}}
    changed = [kube.by_node(each, "another") for each in (first, second)]
    live = {key(each): granted(each) for each in changed}
    pods = copied(list(cloud.pods.values()))
    old, new = pods[0], {**copied(pods[0]), **_pending("node0")}
    new["metadata"] |= {
        "name": "new",
        "uid": "new",
        "annotations": changed[0]["spec"]["template"]["metadata"]["annotations"],
    }
    old["metadata"]["ownerReferences"][0]["uid"] = "gone" if is_deleted else "gpu"
    old["metadata"]["deletionTimestamp"] = f"{cloud.now:%Y-%m-%dT%H:%M:%SZ}"

    def rollout(limit: str, *others: Object) -> kube.NodeRollout:
        ctx = replace(
            context(NOVA, release=cloud.releases[OLD]),
            pods=[*others, *pods[1:]][::order],
            children=live,
            nodes=cloud.nodes,
            now=cloud.now + timedelta(minutes=29),
        )
        waves = kube.RolloutLimits(path="spec.compute.rollout", max_unavailable=limit)
        return kube.node_rollout(ctx, "nova-compute", changed, waves)

    alone, others = rollout("1", old, new), rollout("3", new, old)
    assert (alone.verdict.state, alone.verdict.reason, alone.ends) == (State.PROGRESSING, "", ())
    assert "waits for node node0 (nova-compute ends)" in alone.verdict.message
    assert alone.wake is None
    assert len(others.ends) == 2
    assert rollout("3", new).verdict.reason == "RolloutStopped", "without that pod it is late"


def test_a_pod_that_waits_for_the_one_before_gets_the_corrected_change(cloud: Cloud) -> None:
    """It runs nowhere yet: it does not start with an older template first."""
    old, new = cloud.pods["node0"], {**copied(cloud.pods["node0"]), **_pending("node0")}
    new["metadata"] |= {"name": "new", "uid": "new"}
    old["metadata"] |= {"deletionTimestamp": f"{cloud.now:%Y-%m-%dT%H:%M:%SZ}"}
    changed = [kube.by_node(cloud.children["DaemonSet", DAEMONS], "another")]
    live = {key(each): granted(each) for each in changed}
    pods = [old, new, *(each for name, each in cloud.pods.items() if name != "node0")]
    ctx = replace(context(NOVA, release=cloud.releases[OLD]), pods=pods, children=live, nodes=cloud.nodes)
    rollout = kube.node_rollout(ctx, "nova-compute", changed, kube.RolloutLimits(path="spec.compute.rollout"))
    assert [each["metadata"]["name"] for each in rollout.ends] == ["new"]
    assert rollout.verdict.message.endswith("; waits for node node0 (nova-compute ends)")


def test_pods_of_an_earlier_version_are_older(cloud: Cloud) -> None:
    """They have no annotations."""
    for pod in cloud.pods.values():
        del pod["metadata"]["annotations"]
        del pod["metadata"]["labels"]
    assert cloud.wave() == ["node0"]
    assert cloud.details["compute"]["releases"] == [{"name": "unknown", "nodes": 10}]


def test_programs_of_two_releases_understand_each_other(cloud: Cloud) -> None:
    for name in ("nova-config", "nova-cell1-config", f"{DAEMONS}-config"):
        conf = kube.secret_data(cloud.children["Secret", name])["nova.conf"]
        assert "[upgrade_levels]\ncompute = auto\n" in conf
