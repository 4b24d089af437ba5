"""Conflicting edits by hand: what the operator applies comes back, what the cluster holds of secrets stays."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import pytest

from openstack_operator.runtime.kubernetes.kinds import DEPLOYMENT, EVENT, SECRET, STATEFUL_SET, Kind
from openstack_operator.runtime.reconcile.contention import CONTENDED, FREE_CORRECTIONS

from . import toy
from .harness import Cluster, eventually
from .test_controlplane import listed

SERVICE = Kind("v1", "Service", "services")


async def live(cluster: Cluster, kind: Any, name: str) -> dict[str, Any]:
    return await cluster.get(kind, name) or {}


async def owned(cluster: Cluster, *what: tuple[Kind, str]) -> bool:
    found = [await live(cluster, kind, name) for kind, name in what]
    return all(obj and obj["metadata"].get("ownerReferences") for obj in found)


async def test_owner_references_come_back_and_no_password_changes(cluster: Cluster):
    what = ((SECRET, "server-password"), (STATEFUL_SET, "server-db"), (SERVICE, "server"))
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        before = await live(cluster, SECRET, "server-password")
        for kind, name in what:
            await cluster.client.patch_json(
                kind, cluster.namespace, name, [{"op": "remove", "path": "/metadata/ownerReferences"}]
            )
        await eventually(lambda: owned(cluster, *what))
        assert (await live(cluster, SECRET, "server-password"))["data"] == before["data"]


@pytest.mark.parametrize("while_away", [False, True])
async def test_orphaned_objects_are_adopted_with_their_passwords(cluster: Cluster, *, while_away: bool):
    what = ((SECRET, "server-password"), (STATEFUL_SET, "server-db"))
    async with cluster.simulator():
        async with cluster.operator():
            await cluster.create(toy.SERVER, "server")
            await cluster.ready(toy.SERVER, "server")
            before = [await live(cluster, kind, name) for kind, name in what]
            if not while_away:
                await _orphan(cluster)
        if while_away:
            await _orphan(cluster)
        async with cluster.operator():
            await cluster.create(toy.SERVER, "server")
            await cluster.ready(toy.SERVER, "server")
            assert await owned(cluster, *what)
        after = [await live(cluster, kind, name) for kind, name in what]
        assert [obj["metadata"]["uid"] for obj in after] == [obj["metadata"]["uid"] for obj in before]
        assert after[0]["data"] == before[0]["data"]


async def _orphan(cluster: Cluster) -> None:
    """As `kubectl delete --cascade=orphan` does it."""
    for kind in (SECRET, STATEFUL_SET):
        await _garbage_collector_saw(cluster, kind)
    await cluster.delete(toy.SERVER, "server", "Orphan")

    async def gone() -> bool:
        return await cluster.get(toy.SERVER, "server") is None

    await eventually(gone)


async def _garbage_collector_saw(cluster: Cluster, kind: Kind) -> None:
    """Returns once Kubernetes' garbage collector has seen all there was of a kind. What it has not seen when the owner
    goes, it orphans not, but deletes: a marker of the kind whose owner is absent goes once all before it was seen.
    """
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": str(uuid.uuid4())}
    meta = {**cluster.meta("marker"), "ownerReferences": [absent]}
    container = {"name": "main", "image": "example.org/marker"}
    labels = {"app": "marker"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 0, "serviceName": "marker", "selector": {"matchLabels": labels}, "template": template}
    content = {"spec": spec} if kind is STATEFUL_SET else {}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, **content}
    await cluster.client.create(kind, body)

    async def gone() -> bool:
        return await cluster.get(kind, "marker") is None

    await eventually(gone)


async def test_fields_of_ours_come_back_and_those_of_others_stay(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        await cluster.change(DEPLOYMENT, "app-api", "/metadata/finalizers", ["example.org/mine"])
        await cluster.change(DEPLOYMENT, "app-api", "/metadata/annotations/example.org~1mine", "yes")
        await cluster.change(DEPLOYMENT, "app-api", "/spec/minReadySeconds", 3)
        await cluster.change(DEPLOYMENT, "app-api", "/spec/template/spec/containers/0/image", "example.org/mine:1")
        await cluster.change(SERVICE, "app-api", "/spec/ports/0/port", 81)

        async def mended() -> bool:
            run, port = await live(cluster, DEPLOYMENT, "app-api"), await live(cluster, SERVICE, "app-api")
            image = run["spec"]["template"]["spec"]["containers"][0]["image"]
            return (image, port["spec"]["ports"][0]["port"]) == ("example.org/app:1", 80)

        await eventually(mended)
        run = await live(cluster, DEPLOYMENT, "app-api")
        assert run["metadata"]["annotations"]["example.org/mine"] == "yes"
        assert run["spec"]["minReadySeconds"] == 3
        await cluster.change(DEPLOYMENT, "app-api", "/metadata/finalizers", [])


async def test_a_program_that_changes_an_object_constantly_is_answered_with_pauses(cluster: Cluster):
    async def corrected() -> bool:
        return (await live(cluster, SERVICE, "app-api"))["spec"]["ports"][0]["port"] == 80

    async def warnings() -> list[str]:
        return [event["message"] for event in await listed(cluster, EVENT) if event["reason"] == CONTENDED]

    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        # The Event comes after the correction of which it tells, so that none is expected to be there at once.
        for done in range(FREE_CORRECTIONS + 2):
            assert done >= FREE_CORRECTIONS or await warnings() == []
            await cluster.change(SERVICE, "app-api", "/spec/ports/0/port", 81)
            await eventually(corrected)
            if await warnings():
                break
        (warning,) = await eventually(warnings)
        assert "Service/app-api" in warning
        # Other objects of the resource do not wait with it.
        await cluster.change(SERVICE, "app-api", "/spec/ports/0/port", 81)
        await cluster.change(DEPLOYMENT, "app-api", "/spec/template/spec/containers/0/image", "example.org/mine:1")

        async def mended() -> bool:
            run = await live(cluster, DEPLOYMENT, "app-api")
            return run["spec"]["template"]["spec"]["containers"][0]["image"] == "example.org/app:1"

        await eventually(mended)
        await eventually(corrected)


async def test_a_password_set_by_hand_is_the_password(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        mine = base64.b64encode(b"mine").decode()
        await cluster.change(SECRET, "server-password", "/data/root", mine)
        await cluster.create(toy.ACCOUNT, "account")
        await cluster.ready(toy.ACCOUNT, "account")

        async def used() -> bool:
            return cluster.remote.accounts == {"app": "mine"}

        await eventually(used)
        assert (await live(cluster, SECRET, "server-password"))["data"] == {"root": mine}


async def test_a_deleted_irreplaceable_secret_returns_unchanged(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        before = await live(cluster, SECRET, "server-password")
        await cluster.delete(SECRET, "server-password")

        async def back() -> dict[str, Any]:
            found = await live(cluster, SECRET, "server-password")
            return found if found and found["metadata"]["uid"] != before["metadata"]["uid"] else {}

        assert (await eventually(back))["data"] == before["data"]


async def test_a_server_named_like_a_removed_one_has_new_passwords(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        before = await live(cluster, SECRET, "server-password")
        await cluster.delete(toy.SERVER, "server")

        async def gone() -> bool:
            return not await live(cluster, SECRET, "server-password")

        await eventually(gone)
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        assert (await live(cluster, SECRET, "server-password"))["data"] != before["data"]


async def test_a_deleted_service_has_the_same_port_when_it_is_back(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server", exposed=True)
        await cluster.ready(toy.SERVER, "server")

        async def port() -> tuple[str, int]:
            service = await live(cluster, SERVICE, "server")
            return service.get("metadata", {}).get("uid", ""), service["spec"]["ports"][0]["nodePort"] if service else 0

        async def back() -> bool:
            uid, number = await port()
            return bool(number) and uid != before[0]

        before = await port()
        await cluster.delete(SERVICE, "server")
        await eventually(back)
        assert (await port())[1] == before[1]

        async def told() -> bool:
            return (await live(cluster, toy.SERVER, "server"))["status"]["published"].get("port") == str(before[1])

        await eventually(told)


async def test_the_other_port_of_a_service_that_went_unseen_is_told(cluster: Cluster):
    async def told() -> str:
        service = await live(cluster, SERVICE, "server")
        port = service.get("spec", {}).get("ports", [{}])[0].get("nodePort")
        status = (await live(cluster, toy.SERVER, "server"))["status"]
        return str(port) if status["published"].get("port") == str(port) else ""

    async with cluster.simulator():
        async with cluster.operator():
            await cluster.create(toy.SERVER, "server", exposed=True)
            await cluster.ready(toy.SERVER, "server")
            before = await eventually(told)
        await cluster.delete(SERVICE, "server")
        # Another Service has the port by the time the operator is back.
        taken = {"type": "NodePort", "ports": [{"name": "sql", "port": 3306, "nodePort": int(before)}]}
        other = {"metadata": {"name": "other", "namespace": cluster.namespace}, "spec": taken}
        await cluster.client.create(SERVICE, {"apiVersion": "v1", "kind": "Service", **other})
        async with cluster.operator():
            assert await eventually(told) != before


async def test_a_status_written_by_hand_is_corrected(cluster: Cluster):
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.SERVER, "server")
        await cluster.ready(toy.SERVER, "server")
        before = (await live(cluster, toy.SERVER, "server"))["status"]
        lie = {"published": {"host": "elsewhere"}, "phase": "Mine"}
        await cluster.client.merge_status(Kind.of(toy.SERVER), cluster.namespace, "server", lie)

        async def corrected() -> bool:
            status = (await live(cluster, toy.SERVER, "server"))["status"]
            return status["published"] == before["published"]

        await eventually(corrected)


async def test_a_field_that_no_plan_sets_goes_unless_its_annotation_keeps_it(cluster: Cluster):
    """`kubectl edit` of a resource that another one makes; no plan sets the port or the pause."""

    async def set_by_hand(kind: Kind, name: str, **fields: Any) -> None:
        body = {"metadata": cluster.meta(name), "spec": fields}
        await cluster.client.merge(kind, body, manager="kubectl-edit")

    async def is_without(kind: Kind, name: str, field: str) -> bool:
        # Its default may be back.
        return not (await live(cluster, kind, name))["spec"].get(field)

    async def message() -> str:
        return (await cluster.condition(toy.STACK, "stack", "ForeignFields")).get("message", "")

    server = Kind.of(toy.SERVER)
    async with cluster.simulator(), cluster.operator():
        await cluster.create(toy.STACK, "stack")
        await cluster.ready(toy.STACK, "stack")
        await set_by_hand(server, "server", exposed=True)
        await eventually(lambda: is_without(server, "server", "exposed"))
        assert "Server/server spec.exposed, which kubectl-edit set, was removed" in await eventually(message)
        await set_by_hand(DEPLOYMENT, "app-api", paused=True)
        await eventually(lambda: is_without(DEPLOYMENT, "app-api", "paused"))
        keep = [{"op": "add", "path": "/metadata/annotations/openstack.k8s.io~1keep-fields", "value": "spec.exposed"}]
        await cluster.client.patch_json(server, cluster.namespace, "server", keep)
        await set_by_hand(server, "server", exposed=True)

        async def stays() -> bool:
            return "stays, because the annotation" in await message()

        await eventually(stays)
        assert not await is_without(server, "server", "exposed")
