"""What `plan` foresees is what happens: the same change foreseen, and then made, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openstack_operator.cli.main import main
from openstack_operator.cli.preview import commands
from openstack_operator.cli.preview.changes import ObjectChange, changes
from openstack_operator.cli.preview.client import Address, DryRunClient, Write
from openstack_operator.cli.preview.definitions import outdated
from openstack_operator.cli.preview.edit import LastApply
from openstack_operator.cli.preview.previewed_cluster import Applied, Preview
from openstack_operator.kube import conditions
from openstack_operator.plan import Object, SpecError
from openstack_operator.registry import ACTUATORS, RESOURCES, SERVICES
from openstack_operator.release_files import ReleaseFiles
from openstack_operator.runtime.kubernetes.bodies import APPLY
from openstack_operator.runtime.kubernetes.errors import Missing
from openstack_operator.runtime.kubernetes.kinds import Kind
from openstack_operator.runtime.serve.manager import Manager
from openstack_operator.services.controlplane.model import CONTROL_PLANE
from tests.searches import IS_LONG

from .harness import Cluster, at_rest, eventually, look_again
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
        with contextlib.suppress(SpecError):
            await preview.change(Kind.of(CONTROL_PLANE), {**live, "spec": spec})
        await preview.settle()
        return changes(client.written)
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
    return changes({each: Write(before.get(each), after.get(each)) for each in places})


def summary(found: Iterable[ObjectChange]) -> set[tuple[str, str, tuple[str, ...]]]:
    return {(each.name, each.verb, tuple(sorted(field.path for field in each.fields))) for each in found}


async def test_a_preview_writes_nothing(cluster: Cluster, root: Path) -> None:
    """Nothing is created, changed or deleted: no object has another version, no operator runs that would repair it."""
    async with operator(cluster, root) as manager:
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await at_rest(manager)
    before = await stored(cluster, manager)
    live = await cluster.get(CONTROL_PLANE, "cloud") or {}
    spec = changed(changed(live["spec"], "placement.enabled", False), "keystone.nodeSelector", {"disk": "fast"})
    spec = changed(spec, "rabbitmq.enabled", True)
    verbs = {each.verb for each in await foreseen(cluster, root, spec)}
    assert verbs == {"created", "changed", "deleted"}
    assert await stored(cluster, manager) == before


async def applied(cluster: Cluster, root: Path, **spec: Any) -> tuple[Applied, list[ObjectChange]]:
    """How a preview applies another spec to the cloud, and what changes."""
    client = DryRunClient.connect()
    try:
        preview = Preview(
            client, SERVICES, ACTUATORS, ReleaseFiles(root / "releases"), cluster.namespace, operator_namespace="o"
        )
        await preview.load()
        result = await preview.apply(Kind.of(CONTROL_PLANE), manifest(cluster, spec))
        return result, changes(client.written)
    finally:
        await client.close()


def manifest(cluster: Cluster, spec: Object) -> Object:
    metadata = cluster.meta("cloud")
    return {"apiVersion": CONTROL_PLANE.api_version, "kind": CONTROL_PLANE.kind, "metadata": metadata, "spec": spec}


async def apply_by_server(cluster: Cluster, spec: Object) -> None:
    """As `kubectl apply --server-side` does it, with which large definitions of clouds come to a cluster."""
    path, query = Kind.of(CONTROL_PLANE).path(cluster.namespace, "cloud"), {"fieldManager": "kubectl", "force": "true"}
    await cluster.client._request("PATCH", path, manifest(cluster, spec), APPLY, params=query)  # pyright: ignore[reportPrivateUsage]


async def test_a_field_that_a_manifest_no_longer_has_goes(cluster: Cluster, root: Path) -> None:
    await apply_by_server(cluster, {**SMALL, "keystone": {"replicas": 3}})
    (previous, conflict), (change,) = await applied(cluster, root, **SMALL)
    assert previous == LastApply(is_by_server=True, manager="kubectl")
    assert not conflict
    assert {each.path: each.after for each in change.fields} in ({"spec.keystone": None}, {"spec.keystone.replicas": 1})


async def test_a_patch_stands_in_the_way_of_a_manifest_and_is_named(cluster: Cluster, root: Path) -> None:
    """`kubectl apply --server-side` ends with these words unless it is told to force."""
    await apply_by_server(cluster, {**SMALL, "keystone": {"replicas": 3}})
    patch = {"metadata": {"name": "cloud", "namespace": cluster.namespace}, "spec": {"keystone": {"replicas": 2}}}
    await cluster.client.merge(Kind.of(CONTROL_PLANE), patch, manager="kubectl-patch")
    (_, conflict), (change,) = await applied(cluster, root, **SMALL, keystone={"replicas": 3})
    assert 'conflict with "kubectl-patch"' in conflict
    assert ".spec.keystone.replicas" in conflict
    assert {each.path: (each.before, each.after) for each in change.fields} == {"spec.keystone.replicas": (2, 3)}


async def test_plan_says_how_it_applies_and_what_stands_in_the_way(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await apply_by_server(cluster, {**SMALL, "keystone": {"replicas": 3}})
    patch = {"metadata": {"name": "cloud", "namespace": cluster.namespace}, "spec": {"keystone": {"replicas": 2}}}
    await cluster.client.merge(Kind.of(CONTROL_PLANE), patch, manager="kubectl-patch")
    file = tmp_path / "cloud.json"
    file.write_text(json.dumps(manifest(cluster, {**SMALL, "keystone": {"replicas": 3}})), encoding="utf-8")
    status = await asyncio.to_thread(main, ["plan", "-f", str(file)])
    printed = capsys.readouterr()
    assert status == commands.DIFFERENT
    assert "spec.keystone.replicas: 2 -> 3" in printed.out
    name = "openstack-operator plan: OpenStackControlPlane/cloud: "
    lines = [line.removeprefix(name) for line in printed.err.splitlines() if line.startswith(name)]
    assert [line.partition(";")[0] for line in lines if "server-side" in line] == [
        "applied with --server-side, as the last time"
    ]
    assert [line for line in lines if 'conflict with "kubectl-patch"' in line]


async def stored(cluster: Cluster, manager: Manager) -> set[tuple[str, str, str]]:
    """Kind, name and version of all that the API server holds in the namespace, of the kinds that it serves."""
    found = set[tuple[str, str, str]]()
    for kind in manager.world.catalog.all:
        with contextlib.suppress(Missing):
            for each in json.loads(await cluster.client.page(kind, cluster.namespace, {}))["items"]:
                found.add((kind.handle, each["metadata"]["name"], each["metadata"]["resourceVersion"]))
    return found


async def test_a_cloud_that_is_as_it_should_be_changes_in_nothing(cluster: Cluster, root: Path) -> None:
    async with operator(cluster, root) as manager:
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await at_rest(manager)
        live = await cluster.get(CONTROL_PLANE, "cloud") or {}
        assert await foreseen(cluster, root, live["spec"]) == []


CHANGES: Mapping[str, Sequence[Any]] = {
    "keystone.replicas": (1, 2, 3),
    "keystone.config.DEFAULT.debug": (True, False, None),
    "keystone.config.token.expiration": (3600, 7200, "long"),
    "keystone.resources": ({"requests": {"memory": "300Mi"}}, {"limits": {"memory": "1Gi"}}, None),
    "keystone.fernet.maxActiveKeys": (3, 5),
    "keystone.nodeSelector": ({"disk": "fast"}, None),
    "keystone.policy": ({"identity:list_users": "role:admin"}, None),
    "placement.enabled": (True, False),
    "placement.replicas": (1, 2),
    "placement.config.DEFAULT.debug": (True, None),
    "placement.api.image": ("registry.example.com/placement:1", None),
    "mariadb.storageSize": ("2Gi", "3Gi"),
    "mariadb.config.mysqld.max_connections": (500, 700),
    "memcached.replicas": (1, 2),
    "memcached.memory": ("64Mi", "128Mi"),
    "region": ("RegionOne",),
    "tls.internal": (True,),
    "monitoring.enabled": (True, False),
    "nonexistent.field": (1,),
    "keystone.replicaz": (2,),
}
"""Values by field of a cloud, some of which the API server or the operator refuses."""
ROUNDS = int(os.environ.get("OPENSTACK_OPERATOR_CHANGES", "20" if IS_LONG else "3"))
SEED = int(os.environ.get("OPENSTACK_OPERATOR_SEED", "1"))


def changed(spec: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The spec with a field set; None removes it."""
    name, _, rest = path.partition(".")
    inner = changed(spec.get(name) or {}, rest, value) if rest else value
    return {**{key: each for key, each in spec.items() if key != name}, **({} if inner is None else {name: inner})}


@pytest.mark.search
async def test_changes_are_foreseen(cluster: Cluster, root: Path) -> None:
    """The same objects and fields as happen, over random changes of one to three fields; what is refused, too."""
    choose = random.Random(SEED)
    async with operator(cluster, root) as manager:
        await cluster.create(CONTROL_PLANE, "cloud", **SMALL)
        await cluster.ready(CONTROL_PLANE, "cloud")
        await at_rest(manager)
        for _ in range(ROUNDS):
            live = await cluster.get(CONTROL_PLANE, "cloud") or {}
            spec, fields = live["spec"], choose.sample(sorted(CHANGES), choose.randint(1, 3))
            for field in fields:
                spec = changed(spec, field, choose.choice(CHANGES[field]))
            expected = await foreseen(cluster, root, spec)
            before = objects_of(manager)
            with contextlib.suppress(SpecError):
                await cluster.client.merge(Kind.of(CONTROL_PLANE), difference(live, spec))
            await settled(cluster, manager)
            one, other = summary(expected), summary(observed(before, objects_of(manager)))
            # What was foreseen and did not happen, and the reverse.
            assert (one - other, other - one) == (set(), set()), (fields, spec, one & other)


def difference(live: Object, spec: Mapping[str, Any]) -> Object:
    """A merge patch that gives a live object this spec."""
    metadata = {name: live["metadata"][name] for name in ("name", "namespace", "uid")}
    return {"metadata": metadata, "spec": _patch(live["spec"], spec)}


def _patch(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    gone = dict.fromkeys(set(old) - set(new))
    return gone | {name: _patch(old.get(name), value) for name, value in new.items() if value != old.get(name)}


async def settled(cluster: Cluster, manager: Manager) -> None:
    """Returns once the operator has looked at the cloud's present spec, and three looks at everything changed nothing.
    What the API server refuses is sent again at each look.
    """

    async def is_looked_at() -> bool:
        live = await cluster.get(CONTROL_PLANE, "cloud") or {}
        condition = conditions(live).get("Ready", {})
        is_done = condition.get("status") == "True" or "Stalled" in conditions(live)
        return is_done and condition["observedGeneration"] == live["metadata"]["generation"]

    await eventually(is_looked_at)
    calm, before = 0, versions(manager)
    for _ in range(100):
        await asyncio.sleep(0.1)
        await look_again(manager)
        calm = calm + 1 if versions(manager) == before else 0
        before = versions(manager)
        if calm == 3:
            return
    raise AssertionError("it never stopped changing")


def versions(manager: Manager) -> dict[Address, str]:
    return {
        Address(kind, each.meta.namespace, each.meta.name): each.meta.resource_version
        for kind, store in manager.world.stores.items()
        for each in store
    }


async def test_definitions_are_outdated_where_the_models_say_something_else(cluster: Cluster) -> None:
    client = DryRunClient.connect()
    try:
        assert await outdated(client, RESOURCES) == []
        older = [replace(each, columns=()) for each in RESOURCES if each.columns]
        assert await outdated(client, older) == [each.crd_name for each in older]
        unknown = replace(RESOURCES[0], plural="nothings", kind="Nothing")
        assert await outdated(client, [unknown]) == [unknown.crd_name]
    finally:
        await client.close()
