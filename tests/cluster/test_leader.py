"""Leader election: one acts at a time, hands over when it stops, and stops when it cannot renew."""

from __future__ import annotations

import asyncio
import time

import pytest

from openstack_operator.plan import Object, Transient
from openstack_operator.runtime.client import Client, LeadershipLostError
from openstack_operator.runtime.kinds import LEASE, Kind
from openstack_operator.runtime.leader import Leader

from .harness import Cluster, eventually


class Unplugged(Client):
    """A connection that can be pulled."""

    pulled = False

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        if self.pulled:
            raise Transient("no route")
        return await super().get(kind, namespace, name)


class Candidate:
    """A replica, and when it acted."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.client = Unplugged.connect()
        self.name = name
        leader = Leader(self.client, cluster.namespace, name, lease=2, renew=1.2, retry=0.2)
        self.acted: list[float] = []
        self.task = asyncio.ensure_future(leader.lead(self._work))

    async def _work(self) -> None:
        while True:
            self.acted.append(time.monotonic())
            await asyncio.sleep(0.02)

    async def acts(self) -> bool:
        return bool(self.acted)

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.client.close()


async def test_a_leader_that_stops_hands_over_at_once(cluster: Cluster):
    first = Candidate(cluster, "first")
    await eventually(first.acts)
    second = Candidate(cluster, "second")
    await asyncio.sleep(0.5)
    assert not second.acted
    stopped = time.monotonic()
    await first.stop()
    await eventually(second.acts)
    assert second.acted[0] - stopped < 1.5
    assert first.acted[-1] < second.acted[0]
    lease = await cluster.get(LEASE, "openstack-operator")
    assert lease and lease["spec"]["holderIdentity"] == "second"
    await second.stop()


async def test_a_leader_cut_off_stops_before_another_acts(cluster: Cluster):
    first = Candidate(cluster, "first")
    await eventually(first.acts)
    second = Candidate(cluster, "second")
    first.client.pulled = True
    with pytest.raises(LeadershipLostError):
        await asyncio.wait_for(first.task, 5)
    await eventually(second.acts)
    assert first.acted[-1] < second.acted[0]
    await first.stop()
    await second.stop()


async def test_work_that_crashes_gives_the_lease_up(cluster: Cluster):
    async def crash() -> None:
        raise KeyError("a bug")

    client = Client.connect()
    with pytest.raises(KeyError):
        await Leader(client, cluster.namespace, "first", lease=10, retry=0.2).lead(crash)
    second = Candidate(cluster, "second")
    await eventually(second.acts, 2)
    await second.stop()
    await client.close()
