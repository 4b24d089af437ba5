"""The fence: what a process may write ends with its lease, however long it slept."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx2 as httpx
import pytest
from faulty_api import Answer, FaultyApi

from openstack_operator.runtime.client import Client, LeadershipLostError
from openstack_operator.runtime.kinds import SECRET
from openstack_operator.runtime.leader import Leader

THING = {"metadata": {"name": "s", "namespace": "x"}}
DONE: Answer = (200, THING, {})
NO_LEASE: Answer = (404, {"message": "not found"}, {})


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


async def never() -> None:
    raise AssertionError("led without a lease")


def patches(api: FaultyApi) -> int:
    return sum(request.startswith("PATCH") for request in api.requests)


async def test_a_leader_that_slept_writes_nothing_and_ends(api: FaultyApi, client: Client):
    clock = Clock()
    leader = Leader(client, "x", "me", renew=7, retry=1000, clock=clock)
    written: list[float] = []

    async def work() -> None:
        while True:
            api.answers.append(DONE)
            await client.apply(SECRET, THING)
            written.append(clock.now)
            clock.now += 2

    api.answers += [NO_LEASE, DONE]
    with pytest.raises(LeadershipLostError):
        await leader.lead(work)
    assert written == [100, 102, 104, 106]
    assert patches(api) == 4


async def test_who_does_not_lead_writes_nothing(api: FaultyApi, client: Client):
    Leader(client, "x", "me")
    with pytest.raises(LeadershipLostError):
        await client.apply(SECRET, THING)
    with pytest.raises(LeadershipLostError):
        await client.delete(SECRET, "x", "s", "u", "Background")
    assert api.requests == []
    assert await client.get(SECRET, "x", "s")


async def test_a_lease_that_was_given_too_late_is_not_used(api: FaultyApi, client: Client):
    clock = Clock()

    class Slow(Client):
        """Frozen while its request was on the way."""

        async def create(self, kind: object, obj: object) -> dict[str, object]:
            clock.now += 60
            return {}

    slow = Slow(httpx.AsyncClient(base_url=api.url, trust_env=False))
    api.answers.append(NO_LEASE)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await Leader(slow, "x", "me", retry=1000, clock=clock).lead(never)
    assert clock.now == 160
    await slow.close()


async def test_a_request_that_froze_before_its_body_is_none(api: FaultyApi, client: Client):
    asked: list[str] = []

    def fence() -> None:
        asked.append("may I")
        if len(asked) > 1:
            raise LeadershipLostError("too late")

    client.fence = fence
    with pytest.raises(LeadershipLostError):
        await client.apply(SECRET, THING)
    await asyncio.sleep(0.05)
    assert api.requests == []
