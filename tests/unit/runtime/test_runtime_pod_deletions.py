"""Pods that a plan ends are deleted once, by their uid; and plans see the pods that they may have to end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from openstack_operator import kube
from openstack_operator.plan import Object, Step
from openstack_operator.runtime.cache.entries import Cached, Request, entry
from openstack_operator.runtime.cache.store import Store
from openstack_operator.runtime.cache.trimmed_pods import seen_by_plans, trimmed
from openstack_operator.runtime.kubernetes.errors import Conflict, Forbidden
from openstack_operator.runtime.kubernetes.kinds import DAEMON_SET, POD
from openstack_operator.runtime.reconcile.pod_deletions import PodDeleter

NOVA = Request("Nova.openstack.k8s.io", "ns", "nova")


def pod(name: str, uid: str = "u", *, version: int = 1, daemons: str = "", **metadata: Any) -> Object:
    labels = {kube.INSTANCE: "nova"} | metadata.pop("labels", {kube.WATCHED: "true"})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": daemons, "uid": daemons, "controller": True}
    base = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version), "labels": labels}
    owners = {"ownerReferences": [owner]} if daemons else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**base, **owners, **metadata}, "spec": {}, "status": {}}


def cached(live: Object) -> Cached:
    return trimmed(msgspec.json.encode(live), POD)


class Server:
    """An API server with pods that take some time to end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.deleted: list[tuple[str, str]] = []
        self._error = error

    async def delete(self, kind: Any, namespace: str, name: str, uid: str, policy: str) -> Object | None:
        if self._error:
            raise self._error
        self.deleted.append((name, uid))
        return pod(name, uid, version=2, deletionTimestamp="2026-01-01T00:30:00Z")


async def end(client: Server, live: Object, *planned: Object) -> tuple[Any, Store]:
    """Carry out a step that ends the planned pods, in a world that has this pod."""
    store = Store(POD, lambda _: None)
    store.put(cached(live))

    async def apply(step: Step) -> list[Object]:
        return []

    applier: Any = SimpleNamespace(apply=apply, changes=[], is_forbidden=False)
    world: Any = SimpleNamespace(client=client, pods=store)
    pod_deleter, step = PodDeleter(world, NOVA, applier), Step(name="ComputeRollout", ends=planned)
    try:
        await pod_deleter.apply(step)
        await pod_deleter.apply(step)
    finally:
        client.deleted.sort()
    return applier, store


async def test_an_ending_pod_is_deleted_once() -> None:
    client, live = Server(), pod("compute-a")
    applier, store = await end(client, live, live)
    assert client.deleted == [("compute-a", "u")]
    assert applier.changes == ["Pod/compute-a ended"]
    [known] = store
    assert known.meta.deletion_timestamp


async def test_another_pod_of_that_name_stays() -> None:
    client = Server()
    await end(client, pod("compute-a", "new"), pod("compute-a", "old"), pod("compute-b"))
    assert client.deleted == []


async def test_a_pod_that_was_replaced_meanwhile_is_no_error() -> None:
    live = pod("compute-a")
    applier, _ = await end(Server(Conflict("another one by now")), live, live)
    assert applier.changes == []


async def test_a_missing_right_is_told() -> None:
    live = pod("compute-a")
    error = Forbidden("may not delete pods")
    with pytest.raises(Forbidden):
        await end(Server(error), live, live)


def test_plans_see_all_pods_that_they_replace() -> None:
    """Those of an earlier version have no label for that."""
    pods = [
        cached(pod("compute-old", daemons="nova-cell1-compute", labels={})),
        cached(pod("libvirt-old", daemons="nova-libvirt", labels={})),
        cached(pod("compute-new", daemons="nova-cell1-compute")),
        cached(pod("member")),
    ]
    strategies = (("nova-cell1-compute", "OnDelete"), ("nova-libvirt", "RollingUpdate"))
    daemon_sets = [
        (DAEMON_SET, entry({"metadata": {"name": name, "uid": name}, "spec": spec}, DAEMON_SET))
        for name, spec in ((name, {"updateStrategy": {"type": type_}}) for name, type_ in strategies)
    ]
    names = [live["metadata"]["name"] for live in seen_by_plans(pods, daemon_sets)]
    assert names == ["compute-old", "compute-new", "member"]
