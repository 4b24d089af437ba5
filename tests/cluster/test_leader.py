"""Leader election: one acts at a time, hands over when it stops, and stops when it cannot renew."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest

from openstack_operator.plan import Transient
from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import LeadershipLostError
from openstack_operator.runtime.kubernetes.kinds import LEASE
from openstack_operator.runtime.serve.leader import Leader

from .harness import TIMEOUT, Cluster, eventually

LEASE_SECONDS, RENEW_SECONDS = 10, 7


class Unplugged(Client):
    """A connection that can be pulled, and how often it was used."""

    pulled = False
    requests = 0

    async def _request(self, *args: Any, **kwargs: Any) -> bytes:
        if self.pulled:
            raise Transient("no route")
        self.requests += 1
        return await super()._request(*args, **kwargs)


@dataclass
class Clock:
    """Time as all candidates of a test see it: it stands still unless the test moves it."""

    now: float = 1000.0
    moments: itertools.count[int] = field(default_factory=itertools.count)
    """Numbers that tell which of two acts came first."""

    def __call__(self) -> float:
        return self.now


class Candidate:
    """A replica, and in which order it acted."""

    def __init__(self, cluster: Cluster, name: str, clock: Clock, retry: float = 0.05, *, is_new: bool = False) -> None:
        self.client = Unplugged.connect()
        self._clock = clock
        often: Any = {"every": 0.05, "retry": retry}
        leader = Leader(
            self.client, cluster.namespace, name, lease=LEASE_SECONDS, renew=RENEW_SECONDS, clock=clock, **often
        )
        self.acted: list[int] = []
        self.task = asyncio.ensure_future(leader.lead(self._work, is_new=lambda: is_new))

    async def _work(self) -> None:
        while True:
            self.acted.append(next(self._clock.moments))
            await asyncio.sleep(0.02)

    async def acts(self) -> bool:
        return bool(self.acted)

    async def looks(self) -> None:
        """It has seen the lease as it is now, and more than once."""
        before = self.client.requests

        async def twice() -> bool:
            return self.client.requests >= before + 4

        await eventually(twice)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.client.close()


async def pass_time(clock: Clock, seconds: int, waits: Candidate) -> None:
    """Let so much time pass for a replica that looks at the lease each second."""
    for _ in range(seconds):
        clock.now += 1
        await waits.looks()


async def test_a_leader_that_stops_hands_over_at_once(cluster: Cluster):
    clock = Clock()
    # As long as it waits for another try, it gives itself for handing over.
    first = Candidate(cluster, "first", clock, retry=TIMEOUT, is_new=True)
    await eventually(first.acts)
    second = Candidate(cluster, "second", clock)
    await second.looks()
    assert not second.acted
    await first.stop()
    # No time passes: who acts now was given the lease, and did not wait until it lapsed.
    await eventually(second.acts)
    assert first.acted[-1] < second.acted[0]
    lease = await cluster.get(LEASE, "openstack-operator")
    assert lease and lease["spec"]["holderIdentity"] == "second"
    await second.stop()


async def test_a_leader_cut_off_stops_before_another_acts(cluster: Cluster):
    clock = Clock()
    first = Candidate(cluster, "first", clock, is_new=True)
    await eventually(first.acts)
    second = Candidate(cluster, "second", clock)
    first.client.pulled = True
    # The last renewal is what the second one counts from.
    await second.looks()
    await pass_time(clock, RENEW_SECONDS - 1, second)
    acts = len(first.acted)

    async def acts_again() -> bool:
        return len(first.acted) > acts

    await eventually(acts_again)
    await pass_time(clock, 1, second)
    with pytest.raises(LeadershipLostError):
        await asyncio.wait_for(first.task, TIMEOUT)
    assert not second.acted, "what is left of the lease is the margin between the two"
    await pass_time(clock, LEASE_SECONDS - RENEW_SECONDS + 1, second)
    await eventually(second.acts)
    assert first.acted[-1] < second.acted[0]
    await first.stop()
    await second.stop()


async def test_work_that_crashes_gives_the_lease_up(cluster: Cluster):
    crashes = asyncio.Event()

    async def crash() -> None:
        await crashes.wait()
        raise KeyError("a bug")

    clock = Clock()
    client = Client.connect()
    leader = Leader(client, cluster.namespace, "first", lease=LEASE_SECONDS, retry=30, clock=clock)
    first = asyncio.ensure_future(leader.lead(crash, is_new=lambda: True))

    async def leads() -> bool:
        return await cluster.get(LEASE, "openstack-operator") is not None

    await eventually(leads)
    second = Candidate(cluster, "second", clock)
    await second.looks()
    crashes.set()
    with pytest.raises(KeyError):
        await first
    await eventually(second.acts)
    await second.stop()
    await client.close()
