"""Plans beside the event loop: one that does not end keeps no watch, no lease and no other resource waiting."""

from __future__ import annotations

import asyncio
import ctypes
from contextlib import suppress
from threading import Thread
from typing import Any

from ..plan import Context, Plan, SpecError
from .registry import Service

LONGEST = 10
"""Seconds a plan may take; the largest takes some 20 ms."""
_LOOK = 1.0
"""Seconds between looks at a plan. They are counted, so that a process that was frozen loses one and not all."""

_Outcome = tuple[Plan | None, Exception | None]


class _Overdue(BaseException):
    """Ends a plan that took too long, at its next step of Python."""


async def planned(service: Service, context: Context[Any]) -> Plan:
    """The plan of a service. Raises what it raises, and SpecError where it takes too long."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[_Outcome] = loop.create_future()

    def tell(outcome: _Outcome) -> None:
        if not found.done():
            found.set_result(outcome)

    def work() -> None:
        outcome: _Outcome
        try:
            outcome = service.plan(context), None
        except Exception as error:
            outcome = None, error
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, outcome)

    def run() -> None:
        with suppress(_Overdue):
            work()

    # A thread of its own, so that the end it may be given cannot meet another plan.
    thread = Thread(target=run, name="plan", daemon=True)
    thread.start()
    for _ in range(LONGEST):
        if (await asyncio.wait({found}, timeout=_LOOK))[0]:
            break
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(_Overdue))
        raise SpecError("spec", f"takes longer than {LONGEST} s to plan; make it smaller")
    plan, error = found.result()
    if plan is None:
        raise error or AssertionError
    return plan
