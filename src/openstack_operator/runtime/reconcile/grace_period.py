"""GracePeriod for what a spec needs and is not there, or not complete: it may be on its way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from ...plan import State, Verdict
from ..cache.entries import Cached, Request
from ..clock import boottime, now


@dataclass
class GracePeriod:
    """Time for what is incomplete at first: a user who applies a folder, or restores a backup, writes one object after
    another, and tools that do so call a failure final when they see one.
    """

    seconds: float
    clock: Callable[[], float] = boottime
    wall_clock: Callable[[], datetime] = now
    _ends: dict[Request, float] = field(default_factory=dict[Request, float])
    """Time by resource from which on what it lacks counts as missing."""
    _complete: set[Request] = field(default_factory=set[Request])
    """Resources that lacked nothing at some time since this process began."""

    def judge(self, request: Request, resource: Cached, verdict: Verdict) -> tuple[Verdict, float | None]:
        """Return the verdict, Waiting as long as what it lacks may be on its way, and the seconds left of that. A
        process that just began assumes that something was missing since the resource was made: a restart gives it no
        more time.
        """
        if verdict.state is not State.FAILED or not verdict.incomplete:
            self._ends.pop(request, None)
            return verdict, None
        now = self.clock()
        age = 0.0 if request in self._complete else self._age(resource)
        remaining = self._ends.setdefault(request, now + self.seconds - age) - now
        if remaining <= 0:
            return verdict, None
        text = f"{verdict.message}; this counts as a failure after {self.seconds:g} s"
        return Verdict(State.WAITING, text), remaining

    def complete(self, request: Request) -> None:
        """Note that nothing is missing: what is missing later was deleted just then."""
        self._ends.pop(request, None)
        self._complete.add(request)

    def forget(self, request: Request) -> None:
        """Drop what is known of a resource that is gone."""
        self._ends.pop(request, None)
        self._complete.discard(request)

    def _age(self, resource: Cached) -> float:
        """Return the seconds for which a resource has existed."""
        created = resource.meta.creation_timestamp
        age = (self.wall_clock() - datetime.fromisoformat(created)).total_seconds() if created else 0.0
        # Negative by a clock that was put back.
        return max(0.0, age)
