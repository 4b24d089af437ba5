"""Two clouds that choose the same nodes: the agents of the first one stay, and the second one says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.kube import COMPUTE, GATEWAY, NETWORK, conditions
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import DAEMON_SET, NAMESPACE, NODE
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .harness import Cluster, eventually, running
from .test_controlplane import agrees

RESOURCE = {resource.handle: resource for resource in RESOURCES}
AGENTS = {
    "OVNNetwork": ("ovn", "ControllersReady"),
    "Nova": ("nova", "ComputeReady"),
}
"""Resources whose agents wait for nobody else's: their name, and the condition that speaks of these."""
CLOUD = {"expose": {"type": "ClusterIP"}, "tls": {"enabled": False}}
"""Certificates would be a fifth of the objects."""
NAMES = ("ovn-gateway", "ovn-chassis", "ovn-controller", "nova-libvirt", "neutron-metadata-agent")


@pytest.fixture
async def other(cluster: Cluster) -> Cluster:
    """A second namespace."""
    name = f"{cluster.namespace}-other"
    metadata = {"name": name, "namespace": None}
    await cluster.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return replace(cluster, namespace=name)


@pytest.fixture
async def node(cluster: Cluster) -> AsyncIterator[str]:
    """A node that both choose."""
    name = f"{cluster.namespace}-node"
    metadata = {"name": name, "namespace": None, "labels": {**COMPUTE, **NETWORK, **GATEWAY}}
    live = await cluster.client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    yield name
    await cluster.client.delete(NODE, "", name, live["metadata"]["uid"], "Background")


@asynccontextmanager
async def operator(root: Path, *clusters: Cluster) -> AsyncGenerator[None]:
    """One operator with every service that serves these namespaces."""
    client = Client.connect()
    remotes = [replace(actuator, ensure=agrees, remove=agrees) for actuator in ACTUATORS]
    patience = Patience(initial=0.2, later=0.2, retrying=0.5)
    namespaces = [each.namespace for each in clusters]
    manager = Manager(client, SERVICES, remotes, ReleaseFiles(root / "releases"), namespaces, patience=patience)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(manager.run()))
        for each in clusters:
            await stack.enter_async_context(each.simulator())
        yield
    await client.close()


async def refused(cluster: Cluster, kind: str) -> dict[str, Any] | None:
    """The condition of a resource whose nodes are taken."""
    name, type_ = AGENTS[kind]
    condition = conditions(await cluster.get(RESOURCE[kind], name) or {}).get(type_, {})
    return condition if condition.get("reason") == "NodesTaken" else None


async def agents(cluster: Cluster) -> dict[str, str]:
    """uid of each DaemonSet of agents there is, by name."""
    live = {name: await cluster.get(DAEMON_SET, name) for name in NAMES}
    return {name: obj["metadata"]["uid"] for name, obj in live.items() if obj}


async def test_nodes_with_agents_of_another_cloud_are_left_to_it(
    cluster: Cluster, other: Cluster, node: str, root: Path
) -> None:
    async with operator(root, cluster, other):
        await cluster.create(CONTROL_PLANE, "cloud", **CLOUD)
        await cluster.ready(CONTROL_PLANE, "cloud")
        first = await agents(cluster)
        assert set(first) == set(NAMES)
        await other.create(CONTROL_PLANE, "second", **CLOUD)
        for kind in AGENTS:
            condition = await eventually(lambda kind=kind: refused(other, kind))
            assert f"node {node}: OpenStackControlPlane {cluster.namespace}/cloud" in condition["message"]
            assert "nodeSelector" in condition["message"]
        # The only node is a gateway, so that nodes that are none are free.
        assert set(await agents(other)) <= {"ovn-chassis"}

        async def told() -> bool:
            ready = await other.condition(CONTROL_PLANE, "second")
            return node in ready.get("message", "") and f"{cluster.namespace}/cloud" in ready["message"]

        await eventually(told)
        # By hand: nobody else may have the nodes in the moment in between.
        await cluster.delete(DAEMON_SET, "nova-libvirt")
        await eventually(lambda: _remade(cluster, first["nova-libvirt"]))
        await cluster.ready(CONTROL_PLANE, "cloud")
    assert set(await agents(other)) <= {"ovn-chassis"}
    # An operator that knows nothing of before takes what runs for what came first.
    async with operator(root, other, cluster):
        await eventually(lambda: refused(other, "OVNNetwork"))
        assert set(await agents(other)) <= {"ovn-chassis"}
        assert (await agents(cluster)).keys() == first.keys()
        await cluster.delete(CONTROL_PLANE, "cloud", "Foreground")
        # The second one starts by itself.
        await other.ready(CONTROL_PLANE, "second")
        assert set(await agents(other)) == set(first)


async def _remade(cluster: Cluster, uid: str) -> bool:
    return (await agents(cluster)).get("nova-libvirt", uid) != uid


async def test_of_two_at_once_one_has_the_nodes(cluster: Cluster, other: Cluster, node: str, root: Path) -> None:
    for each in (cluster, other):
        await each.create(RESOURCE["OVNNetwork"], "ovn")
    async with operator(root, cluster, other):

        async def settled() -> list[str] | None:
            found = [await each.condition(RESOURCE["OVNNetwork"], "ovn") for each in (cluster, other)]
            reasons = sorted(each.get("reason", "") for each in found)
            return reasons if reasons == ["NodesTaken", "Ready"] else None

        await eventually(settled)
        made = ["ovn-gateway" in await agents(each) for each in (cluster, other)]
        assert sorted(made) == [False, True]


async def test_nodes_apart_are_free_for_both(cluster: Cluster, other: Cluster, node: str, root: Path) -> None:
    async with operator(root, cluster, other):
        await cluster.create(RESOURCE["OVNNetwork"], "ovn")
        await cluster.ready(RESOURCE["OVNNetwork"], "ovn")
        await other.create(RESOURCE["OVNNetwork"], "ovn", chassis={"nodeSelector": {"cloud": "other"}})
        await other.ready(RESOURCE["OVNNetwork"], "ovn")
        # Chosen by both only now: pods cannot start there, which the simulator knows nothing of.
        assert set(await agents(other)) == {"ovn-gateway", "ovn-chassis", "ovn-controller"}
