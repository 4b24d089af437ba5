"""When the API server was put back, nothing is decided before everything was listed again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openstack_operator.actuators import CHASSIS as OVN_CHASSIS
from openstack_operator.kube import NODES_FIELD
from openstack_operator.plan import Object
from openstack_operator.runtime.cache.entries import Change, entry
from openstack_operator.runtime.cache.rewind import Rewinds
from openstack_operator.runtime.cache.world import World
from openstack_operator.runtime.guards.node_claims import NodeClaims
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.history import History
from openstack_operator.runtime.kubernetes.kinds import DAEMON_SET, DEPLOYMENT, Catalog
from openstack_operator.runtime.reconcile.apply_cache import ApplyCache
from tests.unit.polling import eventually


class Informer:
    """One that lists when the test says so."""

    def __init__(self) -> None:
        self.starts = 0
        self.synced = asyncio.Event()
        self.synced.set()

    def start_over(self) -> None:
        self.starts += 1
        self.synced.clear()


class Cluster:
    """What a process knows of a cluster: two informers, and what it remembers beyond them."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(history=History())
        self.informers = [Informer(), Informer()]
        self.stores: dict[Any, Any] = {}
        self.discovery, self.questions = self, 0
        self.remembers = True

    def ask_again(self) -> None:
        self.questions += 1

    async def wait_until_synced(self) -> None:
        for informer in self.informers:
            await informer.synced.wait()

    def forget_all(self) -> None:
        self.remembers = False


@asynccontextmanager
async def followed(cluster: Cluster, **times: float) -> AsyncGenerator[tuple[Rewinds, list[bool]]]:
    judged = list[bool]()
    rewinds = Rewinds(cast("World", cluster), lambda: judged.append(cluster.remembers), **times)
    task = asyncio.ensure_future(rewinds.run())
    await asyncio.sleep(0)
    yield rewinds, judged
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_work_waits_until_all_is_listed_again():
    cluster = Cluster()
    first, second = cluster.informers
    async with followed(cluster) as (rewinds, judged):
        await rewinds.wait_until_settled()
        cluster.client.history.rewind("a test")
        await eventually("lists", lambda: first.starts == second.starts == cluster.questions == 1)
        worker = asyncio.ensure_future(rewinds.wait_until_settled())
        first.synced.set()
        await asyncio.sleep(0)
        assert not worker.done()
        assert not judged
        second.synced.set()
        await worker
        assert judged == [False], "all is looked at again, and nothing is remembered by then"


async def test_evidence_from_a_thread_counts():
    cluster = Cluster()
    async with followed(cluster):
        await asyncio.to_thread(cluster.client.history.rewind, "a lease")
        await eventually("a list", lambda: cluster.informers[0].starts == 1)


async def test_two_servers_that_take_turns_make_no_loop():
    """Each list is evidence again; the next time comes after a pause, and one that comes meanwhile is not lost."""
    cluster = Cluster()
    first, second = cluster.informers
    async with followed(cluster, first_pause=3600) as (_, judged):
        for _ in range(5):
            cluster.client.history.rewind("a test")
            first.synced.set()
            second.synced.set()
            await asyncio.sleep(0.01)
            first.synced.set()
            second.synced.set()
        await eventually("the first time", lambda: len(judged) == 1)
        assert first.starts == 1
    cluster = Cluster()
    first, second = cluster.informers
    async with followed(cluster, first_pause=0.01) as (_, judged):
        for times in (1, 2):
            cluster.client.history.rewind("a test")
            await eventually("lists", lambda expected=times: first.starts == expected)
            first.synced.set()
            second.synced.set()
            await eventually("another look", lambda expected=times: len(judged) == expected)


@pytest.mark.parametrize("kind", ["generation", "version"])
def test_the_apply_cache_is_empty_after_a_rewind(kind: str):
    """A generation of the other history says nothing of the content."""
    meta: Object = {"name": "a", "namespace": "x", "uid": "u", "resourceVersion": "7"}
    live = entry({"metadata": {**meta, "generation": 3} if kind == "generation" else meta}, DEPLOYMENT)
    cache, now = ApplyCache(), datetime(2026, 1, 1, tzinfo=UTC)
    cache.note_noop(live, "stamp")
    for _ in range(9):
        cache.contention.note("u", "stamp", now)
    cache.recreations.note("owner", ["Deployment/a"], ["Deployment/a"], [])
    cache.logs["u"] = "failed"
    cache.examined_versions["u"] = "7"
    assert cache.is_noop(live, "stamp")
    assert cache.contention.pause("u", "stamp", now)
    cache.forget_all()
    assert not cache.is_noop(live, "stamp")
    assert not cache.contention.pause("u", "stamp", now)
    # No user deleted it.
    assert not cache.recreations.note("owner", ["Deployment/a"], [], ["Deployment/a created"])
    assert not cache.logs
    assert not cache.examined_versions


def test_agents_of_another_history_are_read_again():
    """The same DaemonSet of the same generation may have chosen other nodes."""

    def follow(change: Change) -> None:
        claims.follow(change)

    world = World(cast("Client", None), Catalog([OVN_CHASSIS]), [], follow)
    claims = NodeClaims(world)

    def daemon_set(version: int, node: str) -> Object:
        annotations = {NODES_FIELD: "spec.nodeSelector"}
        meta = {"name": "a", "namespace": "x", "uid": "u", "generation": 1, "annotations": annotations}
        spec = {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": node}}}}
        return {"metadata": {**meta, "resourceVersion": str(version)}, "spec": spec}

    def chosen() -> list[str]:
        agents = [each for by_name in claims._existing.values() for each in by_name.values()]  # pyright: ignore[reportPrivateUsage]
        nodes = [(name, {"kubernetes.io/hostname": name}) for name in ("one", "two")]
        return [name for each in agents for name, _ in each.selection.nodes(nodes)]

    world.stores[DAEMON_SET].put(entry(daemon_set(9, "one"), DAEMON_SET))
    assert chosen() == ["one"]
    world.stores[DAEMON_SET].replace(None, [entry(daemon_set(4, "two"), DAEMON_SET)], "5")
    claims.read_again()
    assert chosen() == ["two"]
