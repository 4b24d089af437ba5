"""OVNCluster and OVNChassis on a real API server: one for each Node, what is said of one, and a Node that goes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator import kube
from openstack_operator.actuators import CHASSIS, ovn
from openstack_operator.kube import conditions
from openstack_operator.plan import Context, Object
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.kinds import NODE, POD, Kind
from openstack_operator.runtime.reconcile.report import Patience
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.neutron.model import NEUTRON
from openstack_operator.services.ovnnetwork.cluster_model import OVN_CLUSTER
from openstack_operator.services.ovnnetwork.model import OVN_NETWORK

from .harness import Cluster, eventually, running
from .southbound import Southbound

ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
CONFIG = Kind("v1", "ConfigMap", "configmaps")
LABELS = {"node-role.kubernetes.io/hypervisor": ""}
_names = itertools.count()


@asynccontextmanager
async def operator(cluster: Cluster, root: Path, southbound: Southbound) -> AsyncGenerator[None]:
    """The operator; its OVN's southbound database is the one given, for no name is found here."""

    def there(work: Callable[[Context[Any]], Any]) -> Callable[[Context[Any]], Any]:
        def called(ctx: Context[Any]) -> Any:
            at = {"southbound": f"tcp:127.0.0.1:{southbound.port}"}
            refs = {ref: replace(each, published={**each.published, **at}) for ref, each in ctx.refs.items()}
            return work(replace(ctx, refs=refs))

        return called

    looked = {"ensure": there(ovn.ensure), "remove": there(ovn.remove), "observe": there(ovn.observe)}
    actuators = [replace(each, **looked) if each.resource is CHASSIS else each for each in ACTUATORS]
    client, patience = Client.connect(), Patience(initial=0.2, later=0.2, retrying=0.5, missing=0.2)
    releases = ReleaseFiles(root / "releases")
    manager = Manager(client, SERVICES, actuators, releases, [cluster.namespace], patience=patience)
    with southbound.serving():
        async with running(manager.run()), cluster.simulator():
            yield
    await client.close()


async def node(cluster: Cluster, **labels: str) -> str:
    """A Node, as a kubelet registers it."""
    name = f"{cluster.namespace}-{next(_names)}.example.org"
    meta = {"name": name, "namespace": None, "labels": LABELS | labels}
    await cluster.client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}})
    return name


async def run(cluster: Cluster, on: str) -> None:
    """The pod of a DaemonSet, which the simulator does not make."""
    if await cluster.get(ACCOUNT, "default") is None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": cluster.meta("default")}
        await cluster.client.create(ACCOUNT, account)
    labels = {
        "app.kubernetes.io/managed-by": kube.MANAGED_BY,
        **kube.pods_of("OVNNetwork", "ovn"),
        kube.COMPONENT: "chassis",
        kube.WATCHED: "true",
    }
    spec = {
        "nodeName": on,
        "containers": [{"name": "main", "image": "x"}],
        "automountServiceAccountToken": False,
        # No kubelet ends it.
        "terminationGracePeriodSeconds": 0,
    }
    meta = {**cluster.meta(pod(on)), "labels": labels}
    await cluster.client.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def pod(on: str) -> str:
    return f"ovn-chassis-{on}"


async def leaves(cluster: Cluster, name: str) -> None:
    live = await cluster.client.get(NODE, None, name) or {}
    await cluster.client.delete(NODE, "", name, live["metadata"]["uid"], "Background")


async def chassis(cluster: Cluster, name: str) -> Object:
    async def there() -> Object | None:
        return await cluster.get(CHASSIS, name)

    return await eventually(there)


async def gone(cluster: Cluster, *names: str) -> None:
    async def none() -> bool:
        return not any([await cluster.get(CHASSIS, name) for name in names])

    await eventually(none)


@pytest.fixture
def southbound() -> Southbound:
    return Southbound()


async def test_each_node_that_runs_a_controller_is_a_chassis(
    cluster: Cluster, root: Path, southbound: Southbound
) -> None:
    async with operator(cluster, root, southbound):
        first, idle = await node(cluster), await node(cluster)
        await cluster.create(OVN_CLUSTER, "ovn", controller={"nodeSelector": LABELS})
        await cluster.ready(OVN_CLUSTER, "ovn")
        await run(cluster, first)
        made = await chassis(cluster, first)
        assert [(owner["kind"], owner["name"]) for owner in made["metadata"]["ownerReferences"]] == [("Node", first)]
        assert await cluster.get(CHASSIS, idle) is None
        waiting = await cluster.ready(CHASSIS, first, "Progressing")
        assert "has not registered" in waiting["message"]
        # Neither its cluster nor who uses that waits for it.
        await cluster.ready(OVN_CLUSTER, "ovn")

        southbound.register(first, "192.0.2.1")
        # Anything about it has it looked at before its time.
        await cluster.change(CHASSIS, first, "/metadata/annotations", {"look": "now"})
        await cluster.ready(CHASSIS, first)
        live = await cluster.get(CHASSIS, first) or {}
        assert conditions(live)["OVSConnected"]["status"] == "True"
        assert live["status"]["registeredAt"]
        status = (await cluster.get(OVN_CLUSTER, "ovn") or {})["status"]
        assert status["chassisCount"] == 1
        assert status["endpoints"]["southbound"] == f"tcp:ovn-sb.{cluster.namespace}.svc.cluster.local:6642"


async def test_a_user_setting_of_a_node_stays_and_reaches_it(
    cluster: Cluster, root: Path, southbound: Southbound
) -> None:
    async with operator(cluster, root, southbound):
        name, later = await node(cluster), await node(cluster)
        southbound.register(name, "192.0.2.1")
        said = {"encapsulation": {"ip": "192.0.2.9"}}
        # Before it is one.
        await cluster.create(CHASSIS, later, **said)
        await cluster.create(OVN_CLUSTER, "ovn", controller={"nodeSelector": LABELS})
        await run(cluster, name)
        await run(cluster, later)
        await chassis(cluster, name)
        mappings = [{"physicalNetwork": "provider", "bridge": "br-provider"}]
        await cluster.change(CHASSIS, name, "/spec/bridgeMappings", mappings)

        async def told() -> bool:
            data = (await cluster.get(CONFIG, "ovn-nodes") or {}).get("data") or {}
            return data == {name: "ovn-bridge-mappings=provider:br-provider\n", later: "ovn-encap-ip=192.0.2.9\n"}

        await eventually(told)
        adopted = await cluster.get(CHASSIS, later) or {}
        assert adopted["metadata"]["ownerReferences"][0]["name"] == later
        assert adopted["spec"]["systemId"] == later
        waiting = await cluster.ready(CHASSIS, name, "Progressing")
        assert "not applied spec.bridgeMappings" in waiting["message"]
        southbound.register(name, "192.0.2.1", "provider:br-provider")
        await cluster.change(CHASSIS, name, "/metadata/annotations", {"look": "now"})
        await cluster.ready(CHASSIS, name)
        assert (await cluster.get(CHASSIS, name) or {})["spec"]["bridgeMappings"] == mappings


async def test_chassis_of_a_removed_node_is_forgotten_and_a_deleted_resource_returns(
    cluster: Cluster, root: Path, southbound: Southbound
) -> None:
    async with operator(cluster, root, southbound):
        first, second, third = [await node(cluster) for _ in range(3)]
        await cluster.create(OVN_CLUSTER, "ovn", controller={"nodeSelector": LABELS})
        for name in (first, second, third):
            southbound.register(name, f"192.0.2.{name[-13]}")
            await run(cluster, name)
            await chassis(cluster, name)
            await cluster.ready(CHASSIS, name)

        uid = (await chassis(cluster, second))["metadata"]["uid"]
        await cluster.delete(CHASSIS, second)

        async def back() -> bool:
            live = await cluster.get(CHASSIS, second) or {"metadata": {}}
            return live["metadata"].get("uid") not in (uid, None)

        await eventually(back)
        await leaves(cluster, first)
        await gone(cluster, first)
        # Its label goes, and with that its pod.
        operations = [{"op": "remove", "path": "/metadata/labels/node-role.kubernetes.io~1hypervisor"}]
        await cluster.client.patch_json(NODE, "", third, operations)
        await cluster.delete(POD, pod(third))
        await gone(cluster, third)
        assert southbound.names() == {table: [second] for table in ("Chassis", "Chassis_Private", "Encap")}


async def test_a_cluster_goes_with_all_its_chassis(cluster: Cluster, root: Path, southbound: Southbound) -> None:
    async with operator(cluster, root, southbound):
        name = await node(cluster)
        southbound.register(name, "192.0.2.1")
        await cluster.create(OVN_CLUSTER, "ovn", controller={"nodeSelector": LABELS})
        await run(cluster, name)
        await chassis(cluster, name)
        await cluster.ready(CHASSIS, name)
        await cluster.delete(OVN_CLUSTER, "ovn")
        await gone(cluster, name)

        async def ended() -> bool:
            return await cluster.get(OVN_CLUSTER, "ovn") is None

        await eventually(ended)
        assert await cluster.client.get(NODE, None, name)


async def test_a_name_has_one_owner_and_neutron_finds_either_kind(
    cluster: Cluster, root: Path, southbound: Southbound
) -> None:
    async with operator(cluster, root, southbound):
        await cluster.create(OVN_CLUSTER, "ovn")
        await cluster.ready(OVN_CLUSTER, "ovn")
        # Kubernetes says to the second when something was made: a whole one between the two is what makes one older.
        await asyncio.sleep(1)
        await cluster.create(OVN_NETWORK, "ovn")
        refused = await cluster.ready(OVN_NETWORK, "ovn", "InvalidSpec")
        assert "OVNCluster/ovn of ovn.c5c3.io has the same name" in refused["message"]
        await cluster.create(NEUTRON, "neutron", ovn={"clusterRef": {"name": "ovn"}})

        async def missing() -> str:
            return (await cluster.condition(NEUTRON, "neutron")).get("message", "")

        assert "there is no" in await eventually(missing)
        assert "OVN" not in await missing()
