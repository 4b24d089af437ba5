"""`wait`: until resources are ready, or are gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...kube import conditions
from ...plan import Object, Transient
from ...runtime.kubernetes.client import Client
from ..kind_index import KINDS, KindEntry
from .commands import NOT_READY, READY, explanation
from .selection import PLANES, chosen, kinds_of
from .session import FAULT, run, text_of, warn
from .snapshot import Snapshot, read
from .state import CHANGING, is_ready, is_serving, printed, progress_of, reason_of, remarks, subject

_PAUSE = 2.0
"""Seconds between two looks."""
_WIDEST = 200
"""Letters of a message."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the command line."""

    resource: str | None = None
    """`KIND/NAME`; None stands for the clouds of the namespace."""
    namespace: str = "openstack"
    context: str | None = None
    is_deletion: bool = False
    """True to wait until the resources are gone."""
    timeout: float = 600.0
    """Seconds."""


def wait(options: Options) -> int:
    """Wait, and print each change. Returns 0 once all is as wanted, 1 after the timeout, with the causes, and 2 if the
    question cannot be answered.
    """
    return run(options.context, lambda client: _Wait(client, options).run())


@dataclass
class _Wait:
    client: Client
    options: Options
    _uids: frozenset[str] | None = None
    """Resources to wait for; one that is created again under the same name is another one."""
    _states: dict[str, str] = field(default_factory=dict[str, str])
    """Last phase, reason and progress of each resource, by its subject."""

    async def run(self) -> int:
        ends = time.monotonic() + self.options.timeout
        while True:
            fault = ""
            try:
                pending = await self._look()
                if not pending:
                    return READY
            except Transient as error:
                if self._uids is None:
                    raise
                # An API server that starts again ends no wait.
                fault = text_of(error)
                warn(fault)
            remaining = ends - time.monotonic()
            if remaining <= 0:
                return FAULT if fault else await self._give_up()
            await asyncio.sleep(min(_PAUSE, remaining))

    async def _look(self) -> Sequence[Object]:
        """Return the resources that are not as wanted, and print what changed. Raises LookupError if there is none that
        could ever be ready.
        """
        snapshot = await self._read(self._kinds())
        if self._uids is None:
            resources = self._select(snapshot)
            self._uids = frozenset(each["metadata"]["uid"] for each in resources)
        return self._note(snapshot)

    def _note(self, snapshot: Snapshot) -> list[Object]:
        """Return the resources that are not as wanted, and print what changed."""
        uids, is_deletion = self._uids or frozenset(), self.options.is_deletion
        resources = [each for each in snapshot.resources if each["metadata"]["uid"] in uids]
        if not is_deletion and len(resources) < len(uids):
            raise LookupError("a resource was deleted and cannot become ready")
        for each in resources:
            self._print(subject(each), *_state(each, is_deletion=is_deletion))
        for name in self._states.keys() - {subject(each) for each in resources}:
            self._print(name, "gone")
        return resources if is_deletion else [each for each in resources if not is_ready(each)]

    def _select(self, snapshot: Snapshot) -> Sequence[Object]:
        """Return the resources that the user means; none if nothing is left of what is to be gone."""
        resource, namespace = self.options.resource, self.options.namespace
        if not snapshot.resources and self.options.is_deletion:
            return []
        if not snapshot.resources and not resource:
            raise LookupError(f"there is no cloud in namespace {namespace!r}; name a resource, or another one with -n")
        try:
            return chosen(snapshot, resource, whole=False)
        except LookupError:
            if self.options.is_deletion:
                return []
            raise

    async def _give_up(self) -> int:
        snapshot = await read(self.client, self.options.namespace)
        remaining = self._note(snapshot)
        if not remaining:
            return READY
        goal = "gone" if self.options.is_deletion else "ready"
        print(f"not {goal} within {self.options.timeout:g} s: {', '.join(map(subject, remaining))}")
        for line in await explanation(self.client, snapshot, remaining):
            print(line, flush=True)
        return NOT_READY

    async def _read(self, kinds: Sequence[KindEntry]) -> Snapshot:
        snapshot = await read(self.client, self.options.namespace, kinds, with_workloads=False, with_pods=False)
        snapshot.check_complete()
        return snapshot

    def _kinds(self) -> Sequence[KindEntry]:
        if self.options.resource:
            return kinds_of(self.options.resource)
        return [each for each in KINDS if each.kind in PLANES]

    def _print(self, name: str, state: str, message: str = "") -> None:
        """Print the state of a resource if it is another one than the last."""
        if self._states.get(name) != state:
            self._states[name] = state
            cut = message if len(message) <= _WIDEST else f"{message[: _WIDEST - 1]}…"
            line = f"{name}: {state}{f': {cut}' if cut else ''}"
            print(f"{time.strftime('%H:%M:%S')} {printed(line)}", flush=True)


def _state(live: Object, *, is_deletion: bool) -> tuple[str, str]:
    """Return the phase, the reason and the progress of a resource, with the message that explains them."""
    reason, phase = reason_of(live), (live.get("status") or {}).get("phase")
    if is_deletion and not live["metadata"].get("deletionTimestamp"):
        return "exists and is not being deleted", ""
    if not reason:
        return "Ready", "; ".join(remarks(live))
    message = conditions(live).get("Ready", {}).get("message", "")
    state = CHANGING if is_serving(live) else phase
    return ": ".join(part for part in (state, reason, progress_of(live)) if part), message
