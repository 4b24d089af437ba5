"""When a cloud is itself again: the last moment at which anything was wrong, looked back at from a quiet while."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from .journal import now
from .load import Load
from .site import Site

QUIET = 8.0
"""Seconds without any trouble after which the last one is taken for over."""
_PAUSE = 1.0


@dataclass
class Recovery:
    """How a cloud came back."""

    began: float
    """Moment, on the journal's clock, from which time is counted."""
    seconds: float = 0.0
    """From then to the end of the last trouble."""
    done: bool = False
    troubles: dict[str, str] = field(default_factory=dict[str, str])
    """What is still wrong, where it was not done in time."""
    steps: dict[str, float] = field(default_factory=dict[str, float])
    """What had been wrong → seconds until it was right for good."""

    def timeline(self) -> list[tuple[float, str]]:
        """The steps in the order they were done."""
        return sorted((seconds, what) for what, seconds in self.steps.items())


def recovered(site: Site, load: Load, began: float, timeout: float, quiet: float = QUIET) -> Recovery:
    """Watches until nothing was wrong for `quiet` seconds: every pod and resource Ready, every kind of the load
    acknowledged since `began`, and no request failed.
    """
    found = Recovery(began)
    last: dict[str, float] = {}
    while True:
        troubles = {**site.troubles(), **{f"load/{kind}": "no answer yet" for kind in load.silent(began)}}
        seen = now()
        for what in troubles:
            last[what] = seen
        for attempt in load.journal.between(began):
            if attempt.error:
                last[f"load/{attempt.kind}"] = max(attempt.ended, last.get(f"load/{attempt.kind}", 0.0))
        worst = max([began, *last.values()])
        if not troubles and seen - worst >= quiet:
            found.done = True
        if found.done or seen - began > timeout:
            found.seconds = round(worst - began, 1)
            found.troubles = {} if found.done else troubles
            found.steps = {what: round(moment - began, 1) for what, moment in last.items()}
            return found
        time.sleep(_PAUSE)
