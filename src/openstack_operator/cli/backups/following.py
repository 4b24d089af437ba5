"""The way of a backup or a restore to its end, in lines."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ...kube import conditions
from ...plan import PAUSED, PROGRESSING, Object, Transient
from ...runtime.kubernetes.client import Client
from ..inspection.commands import NOT_READY, READY
from ..inspection.session import FAULT, text_of, warn
from ..inspection.state import printed, subject
from ..kind_index import BY_TYPE
from .repositories import get_resource
from .state import cause_of, has_failed

_PAUSE = 2.0
"""Seconds between two looks."""
_WIDEST = 300
"""Letters of a message."""
_SUMMARIES = frozenset({"Ready", PROGRESSING, "Reconciling", "Stalled", PAUSED})
"""Conditions that are of no part of a resource."""


@dataclass(kw_only=True)
class Follower:
    """Looks at a resource until it is at its end."""

    client: Client
    live: Object
    context: str | None
    timeout: float
    """Seconds."""
    result: Callable[[Object], str]
    """Returns what came out; empty before the end."""
    is_final: Callable[[Object], bool] = has_failed
    """Returns True if it will not come to its end."""
    _lines: dict[str, str] = field(default_factory=dict[str, str])
    """Last line of each condition."""

    async def run(self) -> int:
        """Print each condition when it changes, and the result. Returns 0 with a result, 1 after a failure, which is
        printed on stderr, or the timeout, and 2 if the resource cannot be read. A user who interrupts it reads how to
        go on.
        """
        try:
            return await self._run()
        except (asyncio.CancelledError, KeyboardInterrupt):
            self._say_how_to_follow("goes on without this command")
            raise

    async def _run(self) -> int:
        ends = time.monotonic() + self.timeout
        while True:
            fault = ""
            try:
                await self._look()
            except Transient as error:
                # An API server that starts again ends no wait.
                fault = text_of(error)
                warn(fault)
            if not fault and (text := self.result(self.live)):
                print(printed(f"{subject(self.live)}: {text}"), flush=True)
                return READY
            if not fault and self.is_final(self.live):
                warn(f"{subject(self.live)} failed: {cause_of(self.live)}")
                return NOT_READY
            remaining = ends - time.monotonic()
            if remaining <= 0:
                self._say_how_to_follow(f"is not at its end after {self.timeout:g} s, and goes on")
                return FAULT if fault else NOT_READY
            await asyncio.sleep(min(_PAUSE, remaining))

    async def _look(self) -> None:
        metadata = self.live["metadata"]
        entry = BY_TYPE[self.live["apiVersion"], self.live["kind"]]
        live = await get_resource(self.client, entry, metadata["namespace"], metadata["name"])
        if live is None or live["metadata"]["uid"] != metadata["uid"]:
            raise LookupError(f"{subject(self.live)} was deleted meanwhile")
        self.live = live
        for name, line in _stages(live):
            if self._lines.get(name) != line:
                self._lines[name] = line
                print(f"{time.strftime('%H:%M:%S')} {printed(line)}", flush=True)

    def _say_how_to_follow(self, text: str) -> None:
        """Print the command that goes on from here."""
        short = BY_TYPE[self.live["apiVersion"], self.live["kind"]].short_names[0]
        where = f"-n {self.live['metadata']['namespace']}" + (f" --context {self.context}" if self.context else "")
        command = f"openstack-operator wait {short}/{self.live['metadata']['name']} {where} --timeout 1d"
        warn(f"{subject(self.live)} {text}; follow it: {command}")


def _stages(live: Object) -> Iterator[tuple[str, str]]:
    """Yield a line for each part that is done, and for the next one, for which all later ones wait."""
    for name, condition in conditions(live).items():
        if name in _SUMMARIES:
            continue
        message = condition.get("message", "")
        cut = message if len(message) <= _WIDEST else f"{message[: _WIDEST - 1]}…"
        is_done = condition.get("status") == "True"
        yield name, ": ".join(part for part in (name, "done" if is_done else condition.get("reason"), cut) if part)
        if not is_done:
            return
