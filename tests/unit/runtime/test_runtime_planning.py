"""Plans that do not end, and what goes on beside them."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from openstack_operator.plan import Plan, SpecError
from openstack_operator.runtime.reconcile import planning
from openstack_operator.runtime.reconcile.planning import make_plan
from tests.unit.polling import eventually

pytestmark = pytest.mark.security


def service(plan: Any) -> Any:
    return SimpleNamespace(make_plan=plan)


def alive() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "plan"]


async def test_a_plan_is_made_of_its_context() -> None:
    made = cast("Plan", object())
    assert await make_plan(service({"here": made}.__getitem__), cast("Any", "here")) is made


@pytest.mark.parametrize("error", [SpecError("spec.a", "wrong"), KeyError("a"), RecursionError()])
async def test_an_error_is_the_error_of_the_plan(error: Exception) -> None:
    def fails(_: Any) -> Plan:
        raise error

    with pytest.raises(type(error)) as found:
        await make_plan(service(fails), cast("Any", None))
    assert found.value is error


async def test_a_plan_that_does_not_end_keeps_nobody_waiting_and_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "_LOOK", 0.05)
    turns = 0

    def endless(_: Any) -> Plan:
        while True:
            pass

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    with pytest.raises(SpecError, match=r"spec: takes longer than 10 s to plan; make it smaller"):
        await make_plan(service(endless), cast("Any", None))
    beside.cancel()
    assert turns > 10
    await eventually("its thread to end", lambda: not alive())


async def test_waiting_for_a_plan_can_be_canceled() -> None:
    going, over = threading.Event(), threading.Event()

    def slow(_: Any) -> Plan:
        going.set()
        over.wait()
        return cast("Plan", object())

    task = asyncio.ensure_future(make_plan(service(slow), cast("Any", None)))
    await eventually("the plan to begin", going.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    over.set()
    await eventually("its thread to end", lambda: not alive())
