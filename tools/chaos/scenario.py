"""Scenarios by number, and what one run of a scenario found."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .api import TIMEOUT, Access
from .journal import Journal, now
from .load import Load, Writer
from .recovery import QUIET, Recovery, recovered
from .servers import Guest
from .site import Site


@dataclass
class Result:
    """Result of a scenario: the loss, the outages and the time it took."""

    number: int
    title: str
    passed: bool = False
    seconds: float = 0.0
    """Longest time to recover, from the moment the fault was over."""
    failed: dict[str, int] = field(default_factory=dict[str, int])
    """Requests that failed, by kind."""
    lost: dict[str, int] = field(default_factory=dict[str, int])
    """Acknowledged writes that are not there, by kind."""
    outages: dict[str, float] = field(default_factory=dict[str, float])
    """Longest time in seconds without an acknowledged request, by kind."""
    servers: str = ""
    """State of the servers afterwards, in words."""
    acknowledged: int = 0
    """Writes acknowledged from the begin of the run to the end of this scenario."""
    took: float = 0.0
    """Seconds the whole scenario lasted."""
    problems: list[str] = field(default_factory=list[str])
    """Why it did not pass."""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    """Other measurements."""
    errors: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    timelines: dict[str, list[tuple[float, str]]] = field(default_factory=dict[str, list[tuple[float, str]]])


@dataclass
class Stage:
    """The cloud, the load and the result that a scenario works with."""

    site: Site
    access: Access
    load: Load
    writers: list[Writer]
    guests: list[Guest]
    result: Result

    @property
    def journal(self) -> Journal:
        return self.load.journal

    def await_recovery(
        self, event: str, since: float | None = None, timeout: float = 300, quiet: float = QUIET
    ) -> float:
        """Return the seconds after `since`, by default now, in which the cloud recovered from `event`.

        A cloud that is not in time is a problem of the scenario, which goes on.
        """
        recovery: Recovery = recovered(self.site, self.load, now() if since is None else since, timeout, quiet)
        self.result.seconds = max(self.result.seconds, recovery.seconds)
        self.result.timelines[event] = recovery.timeline()
        if not recovery.is_complete:
            wrong = "; ".join(f"{name}: {why}" for name, why in sorted(recovery.troubles.items()))
            self.result.problems.append(f"{event}: not recovered after {timeout:.0f} s: {wrong[:800]}")
        return recovery.seconds

    @contextmanager
    def patience(self, seconds: float) -> Generator[None]:
        """Let all clients of the APIs wait that long for an answer."""
        self.access.timeout = seconds
        try:
            yield
        finally:
            self.access.timeout = TIMEOUT

    def check(self, right: object, problem: str) -> None:
        """Add `problem` to the result unless `right` is true."""
        if not right:
            self.result.problems.append(problem)

    def note(self, **facts: Any) -> None:
        """Add facts to what was measured."""
        self.result.facts.update(facts)


Act = Callable[[Stage], None]


@dataclass(frozen=True)
class Scenario:
    """One thing that goes wrong."""

    number: int
    title: str
    act: Act
    restarts: frozenset[str] | None
    """Nodes whose servers restart by the nature of the fault; None for every node."""


SCENARIOS: dict[int, Scenario] = {}


def scenario(number: int, title: str, restarts: frozenset[str] | None = frozenset()) -> Callable[[Act], Act]:
    """Register a function as the scenario of that number."""

    def register(act: Act) -> Act:
        SCENARIOS[number] = Scenario(number, title, act, restarts)
        return act

    return register
