"""Which nodes agents take, and whose agents are there already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from openstack_operator.kube import KIND, NODES_FIELD, NodeSelection, Object, judge, name_nodes
from openstack_operator.plan import State
from openstack_operator.runtime.cache.entries import Change, Request, entry
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.guards.node_claims import NodeClaims, NodesTaken
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import DAEMON_SET, NODE, Catalog, Kind
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from openstack_operator.services.nova.model import NOVA

NODES = [("n1", {"compute": "yes", "rack": "1"}), ("n2", {"compute": "yes", "rack": "2"}), ("n3", {"rack": "30"})]
COMPUTE = {"compute": "yes"}


def daemons(name: str = "nova-libvirt", labels: Mapping[str, str] = COMPUTE, *terms: Any, **meta: Any) -> Object:
    """A DaemonSet of agents, with the terms of its affinity."""
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}}
    pod = {"nodeSelector": dict(labels), **({"affinity": affinity} if terms else {})}
    annotations = {NODES_FIELD: "spec.compute.nodeSelector"}
    metadata = {"name": name, "labels": {KIND: "nova"}, "annotations": annotations, **meta}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {"template": {"spec": pod}}}


def rack(operator: str, *values: str, key: str = "rack", where: str = "matchExpressions") -> dict[str, Any]:
    return {where: [{"key": key, "operator": operator, "values": [*values]}]}


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        ([], "n1 n2"),
        ([rack("In", "2", "3")], "n2"),
        ([rack("NotIn", "2")], "n1"),
        ([rack("NotIn", "2", key="other")], "n1 n2"),
        ([rack("Exists", key="other")], ""),
        ([rack("DoesNotExist", key="other")], "n1 n2"),
        ([rack("Gt", "1")], "n2"),
        ([rack("Lt", "2")], "n1"),
        ([rack("Lt", "2", key="compute")], ""),
        ([rack("In", "1"), rack("In", "2")], "n1 n2"),
        ([rack("In", "n2", key="metadata.name", where="matchFields")], "n2"),
        ([{**rack("In", "1"), **rack("In", "n2", key="metadata.name", where="matchFields")}], ""),
        ([{}], ""),
        ([rack("Near", "1")], ""),
    ],
)
def test_nodes_that_two_take(terms: list[dict[str, Any]], names: str) -> None:
    one, other = (NodeSelection.of(each) for each in (daemons("one", COMPUTE, *terms), daemons("other", {})))
    assert [name for name, _ in one.nodes(other.nodes(NODES))] == names.split()


def test_many_nodes_are_named_in_short() -> None:
    assert name_nodes(["b"]) == "node b"
    assert name_nodes(["b", "a"]) == "nodes a, b"
    assert name_nodes("edcba") == "nodes a, b, c and 2 more"


PLANE, COMPUTING = Kind.of(CONTROL_PLANE), Kind.of(NOVA)


class Clusters:
    """Two clouds, the nodes, and what the operator knows of them."""

    def __init__(self) -> None:
        self.version = 0
        self.changes: list[Change] = []
        self.world = World(cast("Client", None), Catalog([CONTROL_PLANE, NOVA]), [], self._follow)
        self.node_claims = NodeClaims(self.world)
        self.one, self.two = (self.cloud(namespace) for namespace in ("one", "two"))
        for name, labels in NODES:
            self.put(NODE, {"metadata": {"name": name, "labels": labels}})

    def _follow(self, change: Change) -> None:
        self.node_claims.follow(change)
        self.changes.append(change)

    def put(self, kind: Kind, obj: Object) -> None:
        self.version += 1
        meta = {"uid": f"u{self.version}", **obj["metadata"], "resourceVersion": str(self.version)}
        store = self.world.nodes if kind is NODE else self.world.stores[kind]
        store.put(entry({**obj, "metadata": meta}, kind))

    def cloud(self, namespace: str) -> Request:
        """The Nova of a control plane."""
        self.put(PLANE, {"metadata": {"name": "cloud", "namespace": namespace}})
        maker = {"apiVersion": PLANE.api_version, "kind": PLANE.kind, "name": "cloud", "uid": "u", "controller": True}
        self.put(COMPUTING, {"metadata": {"name": "nova", "namespace": namespace, "ownerReferences": [maker]}})
        return Request("Nova", namespace, "nova")

    def run(self, request: Request, created: str = "2026-01-01T00:00:00Z", generation: int = 1, **spec: Any) -> Object:
        """Its agents, as they are there."""
        owner = {"apiVersion": COMPUTING.api_version, "kind": "Nova", "name": "nova", "uid": "u", "controller": True}
        meta = {"namespace": request.namespace, "creationTimestamp": created, "ownerReferences": [owner]}
        live = daemons(**spec)
        live["metadata"] |= {**meta, "uid": f"{request.namespace}-{created}", "generation": generation}
        live["status"] = {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2}
        self.put(DAEMON_SET, live)
        return live

    def end(self, request: Request, kind: Kind, name: str) -> None:
        held = self.world.stores[kind].get(request.namespace, name)
        assert held
        self.world.stores[kind].remove(held)


@pytest.fixture
def clusters() -> Clusters:
    return Clusters()


def test_agents_that_run_keep_their_nodes(clusters: Clusters) -> None:
    claims = clusters.node_claims
    clusters.run(clusters.one, labels={"rack": "1"})
    with pytest.raises(NodesTaken) as error:
        claims.check(clusters.two, daemons())
    assert str(error.value) == (
        "spec.compute.nodeSelector: agents of another cloud run on node n1: OpenStackControlPlane one/cloud; choose "
        "nodes without agents, or remove the agents of the other cloud from these"
    )
    claims.check(clusters.one, daemons("nova-cell1-compute", {"rack": "1"}))
    claims.check(clusters.two, daemons(labels={"rack": "2"}))


def test_owners_in_a_circle_are_followed_once(clusters: Clusters) -> None:
    nova = {"apiVersion": COMPUTING.api_version, "kind": "Nova", "name": "nova", "uid": "u", "controller": True}
    clusters.put(PLANE, {"metadata": {"name": "cloud", "namespace": "one", "ownerReferences": [nova]}})
    clusters.run(clusters.one)
    with pytest.raises(NodesTaken, match="Nova one/nova"):
        clusters.node_claims.check(clusters.two, daemons())


@pytest.mark.security
def test_daemons_that_only_bear_the_labels_of_a_resource_keep_no_nodes(clusters: Clusters) -> None:
    """Anybody may write labels, also those of a resource of their own."""
    claims, plans = clusters.node_claims, clusters.world.plans
    clusters.run(clusters.one)
    with pytest.raises(NodesTaken):
        claims.check(clusters.two, daemons())
    nova = clusters.world.get(clusters.one)
    assert nova
    plans.settle(clusters.one, nova.meta.uid, [daemons("nova-cell1-compute")])
    claims.check(clusters.two, daemons())
    plans.settle(clusters.one, nova.meta.uid, [daemons("nova-cell1-compute"), daemons()])
    with pytest.raises(NodesTaken):
        claims.check(clusters.two, daemons())


def test_a_refused_cluster_is_notified_once(clusters: Clusters) -> None:
    claims = clusters.node_claims
    clusters.run(clusters.one)
    assert claims.refused() == set()
    with pytest.raises(NodesTaken):
        claims.check(clusters.two, daemons())
    clusters.end(clusters.one, DAEMON_SET, "nova-libvirt")
    assert claims.refused() == {clusters.two}
    assert claims.refused() == set()
    claims.check(clusters.two, daemons())


def test_agents_that_choose_other_nodes_have_those(clusters: Clusters) -> None:
    claims = clusters.node_claims
    clusters.run(clusters.one, labels={"rack": "1"})
    clusters.run(clusters.one, labels={"rack": "2"}, generation=2)
    claims.check(clusters.two, daemons(labels={"rack": "1"}))
    with pytest.raises(NodesTaken, match="on node n2"):
        claims.check(clusters.two, daemons("nova-cell1-compute", {"rack": "2"}))


def test_nodes_become_free_when_agents_go_or_choose_others(clusters: Clusters) -> None:
    """Agents that go or choose others, and who was about to run some; nothing else that goes, and no new status."""
    claims = clusters.node_claims
    claims.check(clusters.one, daemons())
    clusters.run(clusters.two, labels={"rack": "30"})
    clusters.changes.clear()
    clusters.run(clusters.two, labels={"rack": "30"})
    clusters.run(clusters.two, labels={"rack": "40"}, generation=2)
    clusters.run(clusters.two, "2026-02-02T00:00:00Z", labels={"rack": "50"}, generation=2)
    clusters.end(clusters.two, DAEMON_SET, "nova-libvirt")
    clusters.end(clusters.two, COMPUTING, "nova")
    clusters.end(clusters.one, PLANE, "cloud")
    clusters.end(clusters.one, COMPUTING, "nova")
    assert [(change.kind.kind, claims.frees(change)) for change in clusters.changes] == [
        ("DaemonSet", False),
        ("DaemonSet", True),
        ("DaemonSet", True),
        ("DaemonSet", True),
        ("Nova", False),
        (PLANE.kind, False),
        ("Nova", True),
    ]


def test_daemons_that_are_no_agents_take_and_free_nothing(clusters: Clusters) -> None:
    clusters.put(DAEMON_SET, daemons(namespace="one", annotations={}))
    clusters.node_claims.check(clusters.two, daemons())
    clusters.end(clusters.one, DAEMON_SET, "nova-libvirt")
    assert not any(clusters.node_claims.frees(change) for change in clusters.changes)


def test_allowed_nodes_are_not_given_to_another_cluster(clusters: Clusters) -> None:
    """Not before it exists, nor while it is made anew; only once it is not wanted any more, or its owner is gone."""
    claims = clusters.node_claims
    claims.check(clusters.one, daemons())
    with pytest.raises(NodesTaken):
        claims.check(clusters.two, daemons())
    claims.settle(clusters.one, [daemons()])
    clusters.run(clusters.one)
    claims.settle(clusters.one, [daemons()])
    clusters.end(clusters.one, DAEMON_SET, "nova-libvirt")
    with pytest.raises(NodesTaken):
        claims.check(clusters.two, daemons())
    claims.check(clusters.one, daemons())
    claims.settle(clusters.one, [])
    claims.check(clusters.two, daemons())
    with pytest.raises(NodesTaken):
        claims.check(clusters.one, daemons())
    clusters.end(clusters.two, COMPUTING, "nova")
    claims.check(clusters.one, daemons())


def test_a_resource_that_is_being_deleted_keeps_no_nodes_without_agents(clusters: Clusters) -> None:
    """Its teardown may take minutes."""
    claims = clusters.node_claims
    claims.check(clusters.one, daemons())
    clusters.run(clusters.one)
    claims.settle(clusters.one, [daemons()])
    clusters.changes.clear()
    nova = {"name": "nova", "namespace": "one", "uid": "u2", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    clusters.put(COMPUTING, {"metadata": nova})
    assert [claims.frees(change) for change in clusters.changes] == [True]
    with pytest.raises(NodesTaken):
        claims.check(clusters.two, daemons())
    clusters.end(clusters.one, DAEMON_SET, "nova-libvirt")
    claims.check(clusters.two, daemons())


def test_a_refused_request_is_no_claim(clusters: Clusters) -> None:
    claims = clusters.node_claims
    clusters.run(clusters.one, labels={"rack": "1"})
    with pytest.raises(NodesTaken):
        claims.check(clusters.two, daemons())
    claims.settle(clusters.two, [daemons()])
    claims.check(clusters.one, daemons("nova-cell1-compute", {"rack": "2"}))


def test_nodes_that_were_given_to_two_are_told_to_the_later_one(clusters: Clusters) -> None:
    first = clusters.run(clusters.one)
    second = clusters.run(clusters.two, "2026-02-02T00:00:00Z")
    told = [
        clusters.node_claims.judge(request, judge)(live)
        for request, live in ((clusters.one, first), (clusters.two, second))
    ]
    assert [verdict.state for verdict in told] == [State.PROGRESSING, State.FAILED]
    assert told[1].reason == "NodesTaken"
    assert "nodes n1, n2: OpenStackControlPlane one/cloud" in told[1].message
    second["status"]["numberReady"] = 2
    assert clusters.node_claims.judge(clusters.two, judge)(second).ready
