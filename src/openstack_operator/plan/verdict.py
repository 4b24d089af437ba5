"""State of a step, as a value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum


class State(IntEnum):
    """Best first, so that max() is the worst."""

    READY = 0
    PROGRESSING = 1  # applied; Kubernetes is working on it
    WAITING = 2  # held back until something else is ready
    RETRYING = 3  # the API was unreachable or our view stale
    FAILED = 4  # will not get better by itself


@dataclass(frozen=True, slots=True)
class Predecessor:
    """A workload that is being rolled out, or a resource, before which another workload does not change."""

    name: str
    """Kind/name."""
    until: datetime | None = None
    """Time at which the wait for it ends at the latest; None if it has none of its own."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a look at a step."""

    state: State
    message: str = ""
    reason: str = ""
    """CamelCase, one of a closed set; empty takes the state's own name."""
    turn_after: Predecessor | None = None
    """The workload that this one waits for."""
    incomplete: bool = False
    """True if all failures here lack something that may be on its way."""
    serves: bool | None = None
    """True if all that served still serves, though this is not done; False if it does not, whatever pods say; None if
    only a look at the pods can tell."""

    @property
    def ready(self) -> bool:
        return self.state is State.READY

    @property
    def cause(self) -> str:
        """The reason to show in a condition."""
        return self.reason or self.state.name.capitalize()


READY = Verdict(State.READY)
UPGRADE_HELD = "Held"
"""Reason of the last step of an upgrade while it waits for the user, or for the other services of the cloud; and of
Ready if nothing else is left.
"""
ROLLOUT_PAUSED, ROLLOUT_STOPPED = "RolloutPaused", "RolloutStopped"
"""Reasons of a roll-out that waits for a user, and of one that stopped by itself."""
HELD_REASONS = frozenset({UPGRADE_HELD, ROLLOUT_PAUSED})
"""Reasons of what a user holds: it may last for days, and nothing has failed. Ready has such a reason if nothing else
is left.
"""
PROGRESSING, COMPLETE = "Progressing", "Complete"
"""Condition of a resource with a plan: whether a change is under way, and its reason when none is."""
RECOVERY = "RecoveryInProgress"
"""Reason of a part that lost members and is on its way back."""


def progressing(message: str) -> Verdict:
    return Verdict(State.PROGRESSING, message)


def changing(message: str) -> Verdict:
    """Return the verdict of a planned change that is under way while all that served still serves."""
    return Verdict(State.PROGRESSING, message, serves=True)


def out_of_service(message: str, reason: str = "") -> Verdict:
    """Return the verdict on something that does not do its work, whatever its pods report, and that will do it again by
    itself.
    """
    return Verdict(State.PROGRESSING, message, reason, serves=False)


def recovering(message: str) -> Verdict:
    """Return the verdict on something that ran and is being brought back; the message says what is done or waited for,
    and why.
    """
    return Verdict(State.PROGRESSING, message, RECOVERY, serves=False)


def waiting(message: str, reason: str = "") -> Verdict:
    return Verdict(State.WAITING, message, reason)


def failed(message: str, reason: str, *, incomplete: bool = False, serves: bool | None = None) -> Verdict:
    return Verdict(State.FAILED, message, reason, incomplete=incomplete, serves=serves)


def all_incomplete(verdicts: Iterable[Verdict]) -> bool:
    """Return True if there are failures, and all of them lack something that may be on its way."""
    failures = [verdict for verdict in verdicts if verdict.state is State.FAILED]
    return bool(failures) and all(verdict.incomplete for verdict in failures)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict that decides a group. All messages of that state are kept, so that none hides behind the
    first, and so is what is done about lost members, whatever happens to their pods.
    """
    all_verdicts = list(verdicts)
    state = max((v.state for v in all_verdicts), default=State.READY)
    recoveries = [v for v in all_verdicts if v.reason == RECOVERY]
    deciding = list(dict.fromkeys([*(v for v in all_verdicts if v.state is state), *recoveries]))
    if len(deciding) <= 1:
        return deciding[0] if deciding else READY
    messages = dict.fromkeys(v.message for v in deciding if v.message)
    reasons = [v.reason for v in deciding if v.reason and v.state is state]
    reason = RECOVERY if RECOVERY in reasons else next(iter(reasons), "")
    return Verdict(state, "; ".join(messages), reason, incomplete=all_incomplete(deciding))
