"""Recovery of a cloud: the last moment at which anything was wrong, looked back at from a quiet while."""

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
    """Course of a cloud's recovery."""

    began: float
    """Moment, on the journal's clock, from which time is counted."""
    seconds: float = 0.0
    """From then to the end of the last trouble."""
    is_complete: bool = False
    troubles: dict[str, str] = field(default_factory=dict[str, str])
    """Pods, resources and requests that are still wrong, if the cloud did not recover in time."""
    steps: dict[str, float] = field(default_factory=dict[str, float])
    """Name of a trouble → seconds until it ended for good."""

    def timeline(self) -> list[tuple[float, str]]:
        """Return the steps in the order in which they were done."""
        return sorted((seconds, step) for step, seconds in self.steps.items())


def recovered(site: Site, load: Load, began: float, timeout: float, quiet: float = QUIET) -> Recovery:
    """Watch until nothing was wrong for `quiet` seconds: every pod and resource Ready, every kind of the load
    acknowledged since `began`, and no request failed.
    """
    recovery = Recovery(began)
    last: dict[str, float] = {}
    while True:
        troubles = {**site.troubles(), **{f"load/{kind}": "no answer yet" for kind in load.silent(began)}}
        checked_at = now()
        for trouble in troubles:
            last[trouble] = checked_at
        for attempt in load.journal.between(began):
            if attempt.error:
                last[f"load/{attempt.kind}"] = max(attempt.ended, last.get(f"load/{attempt.kind}", 0.0))
        worst = max([began, *last.values()])
        if not troubles and checked_at - worst >= quiet:
            recovery.is_complete = True
        if recovery.is_complete or checked_at - began > timeout:
            recovery.seconds = round(worst - began, 1)
            recovery.troubles = {} if recovery.is_complete else troubles
            recovery.steps = {trouble: round(moment - began, 1) for trouble, moment in last.items()}
            return recovery
        time.sleep(_PAUSE)
