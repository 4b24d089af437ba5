"""Every field of every kind with content that no schema foresaw: the operator goes on with all other resources."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from openstack_operator import api
from openstack_operator.kube import conditions
from openstack_operator.registry import RESOURCES
from openstack_operator.runtime.kubernetes.kinds import NAMESPACE, Kind
from openstack_operator.runtime.serve.manager import Manager
from tests.searches import IS_LONG

from .harness import TIMEOUT, Cluster, eventually
from .hostile_content import Attack, attacks, definition, places, write
from .test_controlplane import RESOURCE, operator

pytestmark = [
    pytest.mark.security,
    pytest.mark.skipif(not IS_LONG, reason="takes minutes; make test-security and make test-long run it"),
]

MEMCACHED = RESOURCE["Memcached"]
GROUPS = 7
_AT_ONCE = 4
"""Hostile resources that exist at a time: each request for one takes the API server a second and more."""
_A_SECOND = 1.0
"""Of CPU: what this process takes is the same on a busy machine, which a clock's second is not."""
_FACTOR = 10


class Canary:
    """A Memcached of another namespace, and what it takes until a change of it is carried out."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._replicas = 1

    async def appear(self) -> None:
        """It is there, and Ready."""
        await self._cluster.create(MEMCACHED, "canary")
        await self._cluster.ready(MEMCACHED, "canary")

    async def change(self) -> float:
        """Seconds of CPU of this process from a change to its report."""
        self._replicas = 3 - self._replicas
        before = time.process_time()
        await self._cluster.change(MEMCACHED, "canary", "/spec/replicas", self._replicas)
        await self._cluster.ready(MEMCACHED, "canary")
        return time.process_time() - before


@pytest.fixture(autouse=True)
def _patient(cluster: Cluster) -> None:
    """The requests of these tests wait: the API server works on megabytes of several of them at a time."""
    http: httpx.AsyncClient = cluster.client._http  # pyright: ignore[reportPrivateUsage]
    http.timeout = TIMEOUT


@pytest.fixture
async def calm(cluster: Cluster) -> AsyncIterator[Cluster]:
    """Another namespace, in which nothing is wrong."""
    name = f"{cluster.namespace}-calm"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "namespace": None}}
    await cluster.client.create(NAMESPACE, body)
    yield Cluster(cluster.client, name)


@contextmanager
def longest_step(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[], float]]:
    """Tells the most CPU that one step of the event loop took, during which nobody else runs."""
    run = asyncio.Handle._run  # pyright: ignore[reportPrivateUsage]
    longest = 0.0

    def measured(handle: asyncio.Handle) -> None:
        nonlocal longest
        before = time.thread_time()
        run(handle)
        longest = max(longest, time.thread_time() - before)

    with monkeypatch.context() as patched:
        patched.setattr(asyncio.Handle, "_run", measured)
        yield lambda: longest


async def reported(manager: Manager, cluster: Cluster, kind: Kind, name: str) -> dict[str, Any]:
    """The Ready condition that speaks of the present spec, once the API server took it: a busy one takes more than the
    operator's patience to store a megabyte, and the operator says that it tries again.
    """

    async def current() -> dict[str, Any] | None:
        item = manager.world.stores[kind].get(cluster.namespace, name)
        condition = conditions(item.decode()).get("Ready", {}) if item else {}
        is_current = item and condition.get("observedGeneration") == item.meta.generation
        return condition if is_current and condition.get("reason") != "Retrying" else None

    return await eventually(current)


def check_refusal(kind: str, attack: Attack, text: str) -> None:
    """The answer says what is wrong, and names each field that is."""
    assert re.search(attack.refusal, text), (kind, attack.name, text[:1_000])
    if attack.refusal.startswith(("must ", "may ")):
        for path in attack.fields:
            field = next(part for part in reversed(path) if part not in ("*", "[]"))
            assert field in text, (kind, attack.name, path, text[:1_000])


async def attack_with(
    cluster: Cluster, manager: Manager, resource: api.Resource[Any], canary: Canary
) -> tuple[float, int]:
    """Tries everything on a kind. Each is refused by the API server or reported by the operator, as it should; returns
    the CPU that the canary took meanwhile, and how many there were.
    """
    tried, took = list(attacks(resource)), 0.0
    for number in range(0, len(tried), _AT_ONCE):
        took = max(took, await _attack_at_once(cluster, manager, resource, canary, tried[number : number + _AT_ONCE]))
    return took, len(tried)


async def _attack_at_once(
    cluster: Cluster, manager: Manager, resource: api.Resource[Any], canary: Canary, tried: Sequence[Attack]
) -> float:
    kind = Kind.of(resource)

    async def answer(attack: Attack) -> bool:
        said = await write(cluster, resource, attack)
        if attack.refusal:
            assert said.status >= 400, (resource.handle, attack.name)
            check_refusal(resource.handle, attack, said.text)
        else:
            assert said.status in (200, 201), (resource.handle, attack.name, said)
        return not attack.refusal

    answers = await asyncio.gather(*map(answer, tried))
    took = await canary.change()
    there = [attack for attack, is_there in zip(tried, answers, strict=True) if is_there]
    for attack in there:
        condition = await reported(manager, cluster, kind, attack.name)
        assert attack.report in condition["message"], (resource.handle, attack.name, condition)
        assert condition["reason"] != "InternalError", (resource.handle, attack.name, condition)
        assert (condition["reason"] == "InvalidSpec") or not attack.report, (resource.handle, attack.name, condition)
    for attack in there:
        await cluster.delete(resource, attack.name)

    async def gone() -> bool:
        return not manager.world.stores[kind].of_namespace(cluster.namespace)

    await eventually(gone)
    return took


@pytest.mark.parametrize("group", range(GROUPS))
async def test_every_kind_may_hold_anything_and_others_go_on(
    cluster: Cluster, calm: Cluster, root: Path, monkeypatch: pytest.MonkeyPatch, group: int
) -> None:
    canary, kinds = Canary(calm), RESOURCES[group::GROUPS]
    assert kinds
    async with operator(calm, root, also=[cluster.namespace]) as manager:
        await canary.appear()
        undisturbed = max([await canary.change() for _ in range(3)])
        with longest_step(monkeypatch) as longest:
            for resource in kinds:
                took, tried = await attack_with(cluster, manager, resource, canary)
                assert tried > 3, resource.handle
                assert took < _A_SECOND + _FACTOR * undisturbed, (resource.handle, took, undisturbed)
                assert longest() < _A_SECOND, resource.handle
        await canary.change()


def test_every_field_without_a_bound_is_attacked() -> None:
    for resource in RESOURCES:
        tried = {path for attack in attacks(resource) for path in attack.fields}
        left = [place.path for place in places(definition(resource)) if place.sort not in ("map", "list")]
        assert [path for path in left if path not in tried] == [], resource.handle


async def test_an_operator_starts_beside_what_is_there(cluster: Cluster, calm: Cluster, root: Path) -> None:
    checks = 0
    canary, there = Canary(calm), list[tuple[api.Resource[Any], Attack]]()
    for resource in _of_each_size(RESOURCES):
        for attack in attacks(resource):
            if not attack.refusal and attack.name.startswith(("deep", "unicode", "text", "items")):
                checks += 1
                assert (await write(cluster, resource, attack)).status in (200, 201)
                there.append((resource, attack))
    async with operator(calm, root, also=[cluster.namespace]) as manager:
        await canary.appear()
        await canary.change()
        for resource, attack in there:
            condition = await reported(manager, cluster, Kind.of(resource), attack.name)
            checks += 1
            assert attack.report in condition["message"]
            assert condition["reason"] != "InternalError"
    assert checks


def _of_each_size(resources: Sequence[api.Resource[Any]]) -> list[api.Resource[Any]]:
    """A kind whose fields are few, one of many, and one of another operator's objects."""
    return [each for each in resources if each.handle in ("Memcached", "Placement", "CephStorage")]
