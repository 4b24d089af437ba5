"""What `plan` foresees is what happens: the same change foreseen, and then made, on a real API server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from openstack_operator.plan import Object
from openstack_operator.preview.changes import ObjectChange, changes
from openstack_operator.preview.client import Address, DryRunClient, Touched
from openstack_operator.preview.cluster import Preview
from openstack_operator.registry import ACTUATORS, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kinds import Kind
from openstack_operator.runtime.manager import Manager
from openstack_operator.services.controlplane.model import CONTROL_PLANE

from .harness import Cluster, at_rest
from .test_controlplane import SMALL, operator


async def foreseen(cluster: Cluster, root: Path, spec: Mapping[str, Any]) -> list[ObjectChange]:
    """What `plan` says that a change of the cloud's spec would do."""
    client = DryRunClient.connect()
    try:
        preview = Preview(
            client,
            SERVICES,
            ACTUATORS,
            ReleaseFiles(root / "releases"),
            cluster.namespace,
            operator_namespace="openstack-operator",
        )
        await preview.load()
        live = await cluster.get(CONTROL_PLANE, "cloud") or {}
        await preview.change(Kind.of(CONTROL_PLANE), {**live, "spec": spec})
        await preview.settle()
        return changes(client.touched)
    finally:
        await client.close()


def objects_of(manager: Manager) -> dict[Address, Object]:
    return {
        Address(kind, each.meta.namespace, each.meta.name): each.decode()
        for kind, store in manager.world.stores.items()
        for each in store
    }


def observed(before: Mapping[Address, Object], after: Mapping[Address, Object]) -> list[ObjectChange]:
    places = [*before, *(each for each in after if each not in before)]
    return changes({each: Touched(before.get(each), after.get(each)) for each in places})


def summary(found: Iterable[ObjectChange]) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(each.name, each.verb, tuple(sorted(field.path for field in each.fields))) for each in found}


async def test_a_cloud_that_is_as_it_should_be_changes_in_nothing(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root) as manager:
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await at_rest(manager)
        live = await cluster.get(CONTROL_PLANE, "cloud") or {}
        assert await foreseen(cluster, root, live["spec"]) == []


async def test_changes_are_foreseen(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root) as manager:
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await at_rest(manager)
        for path, value in (
            ("/spec/keystone", {"replicas": 2}),
            ("/spec/placement", {"config": {"DEFAULT": {"debug": True}}}),
            ("/spec/placement", {"enabled": False}),
            ("/spec/placement", {"enabled": True}),
        ):
            live = await cluster.get(CONTROL_PLANE, "cloud") or {}
            spec = {**live["spec"], path.rpartition("/")[2]: value}
            expected = await foreseen(cluster, root, spec)
            before = objects_of(manager)
            await cluster.change(CONTROL_PLANE, "cloud", path, value)
            await cluster.ready(CONTROL_PLANE, "cloud")
            await at_rest(manager)
            assert summary(expected) == summary(observed(before, objects_of(manager))), (path, value)
