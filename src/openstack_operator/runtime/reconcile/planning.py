"""Planning outside the event loop, so that an endless plan stops no watch, no lease and no other resource."""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from ...plan import Context, Plan, Service, SpecError

LONGEST = 10
"""Seconds a plan may take; the largest takes some 20 ms."""
_LOOK = 1.0
"""Seconds between looks at a plan. The looks are counted, so that a process that was frozen loses one and not all."""

Planner = Callable[[Service, Context[Any]], Awaitable[Plan]]
"""A function that returns the plan of a service as `make_plan` does."""
_Outcome = tuple[Plan | None, Exception | None]


class _Overdue(BaseException):
    """Exception that ends a plan that took too long, at its next step of Python."""


async def make_plan(service: Service, context: Context[Any]) -> Plan:
    """Return the plan of a service. Raises what the plan raises, and SpecError if it takes too long."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Outcome] = loop.create_future()

    def deliver(outcome: _Outcome) -> None:
        if not future.done():
            future.set_result(outcome)

    def work() -> None:
        outcome: _Outcome
        try:
            outcome = service.make_plan(context), None
        except Exception as error:
            outcome = None, error
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, outcome)

    def run() -> None:
        with suppress(_Overdue):
            work()

    # One thread for each plan, so that the exception that ends one cannot reach another.
    thread = Thread(target=run, name="plan", daemon=True)
    thread.start()
    for _ in range(LONGEST):
        if (await asyncio.wait({future}, timeout=_LOOK))[0]:
            break
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Overdue))
        raise SpecError("spec", f"takes longer than {LONGEST} s to plan; make it smaller")
    plan, error = future.result()
    if plan is None:
        raise error or AssertionError
    return plan
