"""The fence: what a process may write ends with its lease, however long it slept."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx2 as httpx
import pytest

from openstack_operator.runtime.kubernetes.client import Client
from openstack_operator.runtime.kubernetes.errors import LeadershipLostError
from openstack_operator.runtime.kubernetes.kinds import SECRET
from openstack_operator.runtime.serve.leader import Leader
from tests.unit.faulty_api import Answer, FaultyApi
from tests.unit.polling import TIMEOUT, eventually

THING = {"metadata": {"name": "s", "namespace": "x"}}
DONE: Answer = (200, THING, {})
NO_LEASE: Answer = (404, {"message": "not found"}, {})


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def is_new() -> bool:
    return True


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
        await leader.lead(work, is_new=is_new)
    assert written == [100, 102, 104, 106]
    assert patches(api) == 4


async def test_a_process_that_does_not_lead_writes_nothing(api: FaultyApi, client: Client):
    Leader(client, "x", "me")
    with pytest.raises(LeadershipLostError):
        await client.apply(SECRET, THING)
    with pytest.raises(LeadershipLostError):
        await client.delete(SECRET, "x", "s", "u", "Background")
    assert api.requests == []
    assert await client.get(SECRET, "x", "s")


async def test_a_lease_that_was_given_too_late_is_not_used(api: FaultyApi, client: Client):
    clock, given = Clock(), asyncio.Event()

    class Slow(Client):
        """Frozen while its request was on the way."""

        async def create(self, kind: object, obj: object, **_: object) -> dict[str, object]:
            clock.now += 60
            given.set()
            return {}

    slow = Slow(httpx.AsyncClient(base_url=api.url, trust_env=False, timeout=300))
    api.answers.append(NO_LEASE)
    leading = asyncio.ensure_future(Leader(slow, "x", "me", retry=1000, clock=clock).lead(never, is_new=is_new))
    await given.wait()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not leading.done(), "it waits for its next try"
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
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
    # What had been sent before this one would have come before it.
    client.fence = lambda: None
    assert await client.get(SECRET, "x", "s")
    assert [request.split()[0] for request in api.requests] == ["GET"]


def lease(version: int, holder: str = "me") -> Answer:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 10, "acquireTime": "then", "leaseTransitions": 0}
    return 200, {"metadata": {"name": "l", "namespace": "x", "resourceVersion": str(version)}, "spec": spec}, {}


async def led(api: FaultyApi, client: Client, renewals: int) -> list[str]:
    """The verbs asked of the lease until it was renewed so often; the fake's answers must last for them."""

    async def work() -> None:
        await eventually(f"{renewals} requests", lambda: len(api.requests) >= renewals)

    async with asyncio.timeout(TIMEOUT):
        await Leader(client, "x", "me", every=0.01, retry=0.01).lead(work, is_new=is_new)
    return [request.split()[0] for request in api.requests[:renewals]]


async def test_a_lease_of_ours_is_renewed_unread(api: FaultyApi, client: Client):
    api.answers += [NO_LEASE, *map(lease, range(1, 9))]
    assert await led(api, client, 6) == ["GET", "POST", "PUT", "PUT", "PUT", "PUT"]


async def test_a_lease_somebody_else_wrote_is_read_again(api: FaultyApi, client: Client):
    changed: Answer = (409, {"message": "the object has been modified"}, {})
    api.answers += [NO_LEASE, lease(1), lease(2), changed, *map(lease, range(7, 12))]
    assert await led(api, client, 7) == ["GET", "POST", "PUT", "PUT", "GET", "PUT", "PUT"]


async def test_a_lease_that_was_deleted_is_made_again(api: FaultyApi, client: Client):
    api.answers += [NO_LEASE, lease(1), NO_LEASE, NO_LEASE, *map(lease, range(7, 12))]
    assert await led(api, client, 6) == ["GET", "POST", "PUT", "GET", "POST", "PUT"]


class Store:
    """A lease in an etcd, which candidates ask in turn, and which goes back to a snapshot."""

    def __init__(self) -> None:
        self.version = 100
        self.lease: dict[str, Any] | None = None

    def write(self, spec: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = {"metadata": {"uid": "l", "resourceVersion": str(self.version)}, "spec": dict(spec)}
        return self.lease

    def answer(self, request: httpx.Request) -> httpx.Response:
        sent = json.loads(request.content) if request.content else {}
        if request.method == "GET" or (request.method == "PUT" and not self.lease):
            return httpx.Response(200, json=self.lease) if self.lease else httpx.Response(404, json={})
        now = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if sent["metadata"].get("resourceVersion") != now:
            return httpx.Response(409, json={"message": "the object has been modified"})
        return httpx.Response(200, json=self.write(sent["spec"]))


class Candidate:
    """A replica that asks for the lease when the test says so."""

    def __init__(self, store: Store, name: str, clock: Clock, *, is_new: bool = False) -> None:
        self.client = Client(httpx.AsyncClient(transport=httpx.MockTransport(store.answer), base_url="http://api"))
        self._leader = Leader(self.client, "x", name, clock=clock)
        self._leader._is_new = lambda: is_new  # pyright: ignore[reportPrivateUsage]

    async def asks(self) -> bool:
        return await self._leader._acquire()  # pyright: ignore[reportPrivateUsage]

    def acts(self) -> bool:
        try:
            self.client.fence()
        except LeadershipLostError:
            return False
        return True


SNAPSHOTS: dict[str, Callable[[Store], object]] = {
    "the other one led": lambda store: store.write({"holderIdentity": "other", "leaseDurationSeconds": 10}),
    "it had led": lambda store: store.write({"holderIdentity": "me", "leaseDurationSeconds": 10}),
    "it was released": lambda store: store.write({"holderIdentity": "", "leaseDurationSeconds": 1}),
    "there was none": lambda store: setattr(store, "lease", None),
}


@pytest.mark.security
@pytest.mark.parametrize("snapshot", SNAPSHOTS.values(), ids=SNAPSHOTS)
async def test_never_two_act_after_a_restore(snapshot: Callable[[Store], object]):
    """Whatever the restored lease says: who led may act for as long as its last renewal allows, and nobody else."""
    clock, store = Clock(), Store()
    leads, waits = Candidate(store, "me", clock, is_new=True), Candidate(store, "other", clock)
    assert await leads.asks()
    clock.now += 1
    assert not await waits.asks()
    store.version = 10
    snapshot(store)
    # The one that leads is cut off, so that it does not learn of it.
    for _ in range(20):
        clock.now += 1
        await waits.asks()
        assert not (leads.acts() and waits.acts())
    assert waits.acts(), "nobody leads for ever"
    await leads.client.close()
    await waits.client.close()


@pytest.mark.parametrize("snapshot", SNAPSHOTS.values(), ids=SNAPSHOTS)
async def test_the_leader_notices_a_restore_and_two_never_act(snapshot: Callable[[Store], object]):
    clock, store = Clock(), Store()
    leads, waits = Candidate(store, "me", clock, is_new=True), Candidate(store, "other", clock)
    rewinds = list[str]()
    leads.client.history.on_rewind = lambda: rewinds.append("leads")
    waits.client.history.on_rewind = lambda: rewinds.append("waits")
    assert await leads.asks()
    assert not await waits.asks()
    store.version = 10
    snapshot(store)
    for _ in range(20):
        clock.now += 1
        await waits.asks()
        assert not (leads.acts() and waits.acts())
        if leads.acts():
            await leads.asks()
        assert not (leads.acts() and waits.acts())
    assert leads.acts() or waits.acts()
    assert set(rewinds) == {"leads", "waits"}
    await leads.client.close()
    await waits.client.close()


@pytest.mark.parametrize("is_cut_off", [True, False])
@pytest.mark.parametrize("snapshot", SNAPSHOTS.values(), ids=SNAPSHOTS)
async def test_a_replica_that_starts_after_a_restore_waits(snapshot: Callable[[Store], object], is_cut_off: bool):
    """It never saw the old leader, which acts for as long as its last renewal allows."""
    clock, store = Clock(), Store()
    leads = Candidate(store, "me", clock, is_new=True)
    assert await leads.asks()
    store.version = 10
    snapshot(store)
    starts = Candidate(store, "other", clock)
    for _ in range(20):
        await starts.asks()
        assert not (leads.acts() and starts.acts())
        clock.now += 1
        if leads.acts() and not is_cut_off:
            await leads.asks()
        assert not (leads.acts() and starts.acts())
    assert leads.acts() or starts.acts(), "nobody leads for ever"
    await leads.client.close()
    await starts.client.close()


async def test_a_replica_leads_a_new_cluster_at_once():
    store = Store()
    starts = Candidate(store, "me", Clock(), is_new=True)
    assert await starts.asks()
    await starts.client.close()


async def test_a_leader_stops_when_another_holds_the_lease():
    """Two led a cluster that was put back to a time before the first write of any."""
    clock, store = Clock(), Store()
    leads, starts = Candidate(store, "me", clock, is_new=True), Candidate(store, "other", clock, is_new=True)
    assert await leads.asks()
    store.version, store.lease = 10, None
    assert await starts.asks()
    assert not await leads.asks()
    assert not leads.acts()
    assert starts.acts()
    await leads.client.close()
    await starts.client.close()


async def test_a_restarted_process_waits_for_its_own_lease_to_lapse():
    clock, store = Clock(), Store()
    store.write({"holderIdentity": "me", "leaseDurationSeconds": 10})
    again = Candidate(store, "me", clock)
    for _ in range(10):
        assert not await again.asks()
        clock.now += 1.05
    assert await again.asks()
    await again.client.close()


@pytest.mark.parametrize("holder", ["", "gone"])
async def test_a_process_that_was_frozen_trusts_no_earlier_look_at_the_lease(holder: str):
    """While it was frozen another one led, and the storage was put back to the state that it saw."""
    clock, store = Clock(), Store()
    store.write({"holderIdentity": holder, "leaseDurationSeconds": 10})
    frozen = Candidate(store, "frozen", clock)
    assert not await frozen.asks()
    clock.now += 10.5
    for _ in range(10):
        assert not await frozen.asks()
        clock.now += 1.05
    assert await frozen.asks()
    await frozen.client.close()


async def test_a_leader_that_was_frozen_renews_no_lease_of_another():
    """It was put back while it was frozen, so that the lease of another one has the version of its own."""
    clock, store = Clock(), Store()
    frozen, waits = Candidate(store, "me", clock, is_new=True), Candidate(store, "other", clock)
    assert await frozen.asks()
    before = store.version - 1
    assert not await waits.asks()
    store.version = before
    store.write({"holderIdentity": "me", "leaseDurationSeconds": 10})
    store.version = before
    for _ in range(20):
        clock.now += 1.05
        if await waits.asks():
            break
    assert waits.acts()
    assert store.version == before + 1, "the version of the lease that the frozen one wrote"
    assert not await frozen.asks()
    assert not frozen.acts()
    await frozen.client.close()
    await waits.client.close()


async def test_a_released_lease_lets_another_act_at_once():
    clock, store = Clock(), Store()
    store.write({"holderIdentity": "me", "leaseDurationSeconds": 10})
    waits = Candidate(store, "other", clock)
    assert not await waits.asks()
    store.write({"holderIdentity": "", "leaseDurationSeconds": 1})
    assert await waits.asks()
    await waits.client.close()


async def test_others_wait_longer_than_who_leads_acts():
    """The margin between two leaders: a late answer, and clocks that do not run equally fast."""
    clock, store = Clock(), Store()
    leads, waits = Candidate(store, "me", clock, is_new=True), Candidate(store, "other", clock)
    assert await leads.asks()
    assert not await waits.asks()
    acted = clock.now
    while not await waits.asks():
        acted = clock.now if leads.acts() else acted
        clock.now += 0.25
    assert store.lease and store.lease["spec"]["holderIdentity"] == "other"
    assert clock.now - acted >= 3
    await leads.client.close()
    await waits.client.close()


def busy_until(done: Callable[[], bool]) -> None:
    """Keeps this thread, and the event loop in it, until that is so."""
    end = time.monotonic() + TIMEOUT
    while not done():
        assert time.monotonic() < end, "nothing was renewed"
        time.sleep(0.001)


class Leases(Client):
    """An API server that has nothing but the lease, and gives it to who asks."""

    def __init__(self) -> None:
        super().__init__(httpx.AsyncClient())
        self.threads: list[str] = []
        """The thread of each write."""

    async def get(self, kind: object, namespace: str | None, name: str) -> None:
        return None

    async def create(self, kind: object, obj: object, **_: object) -> dict[str, Any]:
        self.threads.append(threading.current_thread().name)
        return {"metadata": {"resourceVersion": str(len(self.threads))}}

    async def replace(self, kind: object, obj: object, sub: str | None = None) -> dict[str, Any]:
        return await self.create(kind, obj)


@pytest.fixture
async def leases() -> AsyncIterator[Leases]:
    yield (client := Leases())
    await client.close()


@pytest.mark.security
async def test_a_busy_loop_keeps_no_lease_from_being_renewed(leases: Leases):
    apart = Leases()

    async def work() -> None:
        await eventually("a renewal", lambda: bool(apart.threads))
        busy_until(lambda: len(apart.threads) > 5)
        leases.fence()

    await Leader(leases, "x", "me", every=0.01, retry=0.01, connect=lambda: apart).lead(work, is_new=is_new)
    assert set(apart.threads) == {"lease"}
    assert leases.threads == ["MainThread"]


@dataclass
class CountingClock(Clock):
    """Counts how often the thread that renews has looked at it."""

    looks: int = 0

    def __call__(self) -> float:
        self.looks += threading.current_thread().name == "lease"
        return self.now

    def wait(self) -> None:
        """Keeps this thread busy until that one has seen what time it is, or has ended."""
        before = self.looks
        busy_until(lambda: self.looks > before + 5 or "lease" not in [each.name for each in threading.enumerate()])


async def test_a_stuck_loop_costs_the_lease(leases: Leases):
    clock, apart = CountingClock(), Leases()

    async def work() -> None:
        await eventually("a renewal", lambda: bool(apart.threads))
        for clock.now in (106, 112):
            clock.wait()
            leases.fence()
        # A renewal that began before the loop was stuck for ten seconds lasts until 119.
        clock.now = 120
        clock.wait()
        leases.fence()
        raise AssertionError("still ours")

    with pytest.raises(LeadershipLostError):
        await Leader(
            leases, "x", "me", renew=7, every=0.01, retry=0.01, stuck=10, clock=clock, connect=lambda: apart
        ).lead(work, is_new=is_new)
    assert clock.now == 120


async def test_a_canceled_leader_ends_its_thread(leases: Leases):
    apart = Leases()
    leader = Leader(leases, "x", "me", every=0.01, retry=0.01, connect=lambda: apart)

    async def work() -> None:
        await asyncio.Event().wait()

    leading = asyncio.ensure_future(leader.lead(work, is_new=is_new))
    await eventually("renewals", lambda: len(apart.threads) > 2)
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    renewals = len(apart.threads)
    await asyncio.sleep(0.05)
    assert len(apart.threads) == renewals
    with pytest.raises(LeadershipLostError):
        leases.fence()
