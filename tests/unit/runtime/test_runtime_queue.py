"""The work queue, against a model of sets, and its delays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from openstack_operator.runtime.serve.queue import LONGEST_DELAY, WorkQueue
from tests.unit.polling import TIMEOUT

KEYS = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """Keys wait, or are with a worker, or both: then they come again. None is lost, none is with two workers."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.queue = WorkQueue[str]("model")
        self.waiting: list[str] = []
        self.working: set[str] = set()
        self.again: set[str] = set()

    def teardown(self) -> None:
        self.loop.close()

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        if key in self.working:
            self.again.add(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    @precondition(lambda self: self.waiting)
    @rule()
    def get(self) -> None:
        key = self.loop.run_until_complete(self.queue.get())
        assert key == self.waiting.pop(0)
        assert key not in self.working
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: Any) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.task_done(key)
        self.working.discard(key)
        if key in self.again:
            self.again.discard(key)
            self.waiting.append(key)

    @invariant()
    def as_long_as_the_model(self) -> None:
        assert len(self.queue) == len(self.waiting)

    @invariant()
    def pending_is_what_waits_or_is_worked_on(self) -> None:
        assert {key for key in "abcd" if self.queue.is_pending(key)} == {*self.waiting, *self.working}


TestQueue = QueueMachine.TestCase


async def test_workers_never_share_a_key_and_lose_none():
    queue, working, seen = WorkQueue[int]("t"), set[int](), dict[int, int]()

    async def worker() -> None:
        while True:
            key = await queue.get()
            assert key not in working
            working.add(key)
            await asyncio.sleep(0)
            seen[key] = seen.get(key, 0) + 1
            working.discard(key)
            queue.task_done(key)

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(worker()) for _ in range(4)]
        for round_ in range(20):
            for key in range(50):
                queue.add(key)
            if round_ % 5 == 0:
                await asyncio.sleep(0)
        while len(queue) or working:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for each in workers:
            each.cancel()
    assert sorted(seen) == list(range(50))
    assert all(1 <= count <= 20 for count in seen.values())


async def test_the_earliest_of_several_times_counts():
    queue = WorkQueue[str]("t")
    queue.add_after("a", 3600)
    queue.add_after("a", 0.01)
    queue.add_after("a", 1800)
    async with asyncio.timeout(TIMEOUT):
        assert await queue.get() == "a"


async def test_delays_double_up_to_a_limit_and_success_forgets():
    queue = WorkQueue[str]("t")
    delays = [queue.retry("a") for _ in range(12)]
    for failures, delay in enumerate(delays):
        whole = min(2.0**failures, LONGEST_DELAY)
        assert 0.75 * whole <= delay <= whole
    queue.forget("a")
    assert queue.retry("a") <= 1
    assert queue.retry("b", slowly=True) >= 45
    for _ in range(2000):
        queue.retry("c")
    for key in "abc":
        queue.drop(key)


async def test_a_dropped_key_does_not_come_back():
    queue = WorkQueue[str]("t")
    queue.add_after("a", 0.01)
    queue.drop("a")
    # A later time of another key comes after it.
    queue.add_after("b", 0.02)
    async with asyncio.timeout(TIMEOUT):
        assert await queue.get() == "b"
    assert len(queue) == 0


async def got(queue: WorkQueue[str]) -> str:
    """The next key; empty where no worker may have one."""
    task = asyncio.ensure_future(queue.get())
    # All that it may wait for is there already.
    await asyncio.sleep(0)
    if task.done():
        return task.result()
    task.cancel()
    return ""


@pytest.mark.security
async def test_a_group_leaves_as_many_workers_as_it_has():
    queue = WorkQueue[str]("t", workers=16, group=lambda key: key[0])
    for number in range(30):
        queue.add(f"a{number}")
    assert [await got(queue) for _ in range(9)] == [*(f"a{number}" for number in range(8)), ""]
    for number in range(30):
        queue.add(f"b{number}")
    assert [await got(queue) for _ in range(5)] == ["b0", "b1", "b2", "b3", ""]
    queue.add("c0")
    assert [await got(queue) for _ in range(2)] == ["c0", ""]
    queue.task_done("a0")
    assert not await got(queue)
    queue.task_done("a1")
    assert await got(queue) == "b4"
    for number in range(2, 8):
        queue.task_done(f"a{number}")
    assert await got(queue) == "a8"


@pytest.mark.security
async def test_groups_take_turns():
    queue = WorkQueue[str]("t", group=lambda key: key[0])
    for key in ("a0", "a1", "a2", "b0", "c0", "c1"):
        queue.add(key)
    assert [await queue.get() for _ in range(6)] == ["a0", "b0", "c0", "a1", "c1", "a2"]


@pytest.mark.security
async def test_a_worker_waiting_for_its_group_goes_on_when_another_ends():
    queue = WorkQueue[str]("t", workers=2, group=lambda key: key[0])
    queue.add("a0")
    queue.add("a1")
    assert await got(queue) == "a0"
    task = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    assert not task.done()
    queue.task_done("a0")
    async with asyncio.timeout(TIMEOUT):
        assert await task == "a1"


async def test_an_item_due_soon_is_pending():
    now = 0.0
    queue = WorkQueue[str]("t", lambda: now)
    queue.add_after("a", 10)
    assert not queue.is_pending("a", within=9)
    now = 2.0
    assert queue.is_pending("a", within=9)
    queue.drop("a")
    assert not queue.is_pending("a", within=9)


async def test_each_worker_that_waits_gets_one_key():
    queue = WorkQueue[str]("t")
    tasks = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    for key in ("a", "b", "c"):
        queue.add(key)
    async with asyncio.timeout(TIMEOUT):
        assert await asyncio.gather(*tasks) == ["a", "b", "c"]


async def test_a_canceled_worker_leaves_its_key_to_another():
    queue = WorkQueue[str]("t")
    woken, waiting, another = (asyncio.ensure_future(queue.get()) for _ in range(3))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.sleep(0)
    queue.add("a")
    woken.cancel()
    async with asyncio.timeout(TIMEOUT):
        assert await another == "a"
    assert woken.cancelled()
    assert waiting.cancelled()


async def test_the_end_of_one_item_wakes_workers_of_two_groups():
    queue = WorkQueue[str]("t", workers=9, group=lambda key: key[0])
    for number in range(4):
        queue.add(f"a{number}")
        queue.add(f"b{number}")
    assert [await got(queue) for _ in range(7)] == ["a0", "b0", "a1", "b1", "a2", "b2", ""]
    tasks = [asyncio.ensure_future(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.task_done("b0")
    async with asyncio.timeout(TIMEOUT):
        assert await asyncio.gather(*tasks) == ["a3", "b3"]
