"""Carrying a plan out: apply what is not held, judge what comes back, report it as conditions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from .errors import SpecError, Transient
from .steps import WORKLOADS, Object, Plan, Step
from .upgrade import UPGRADE
from .verdict import (
    HELD_REASONS,
    READY,
    ROLLOUT_PAUSED,
    UPGRADE_HELD,
    Predecessor,
    State,
    Verdict,
    all_incomplete,
    progressing,
    waiting,
    worst,
)

_NO_LETTER = re.compile(r"[^a-z0-9]")

Verdicts = dict[Step, Verdict]
Apply = Callable[[Step], Awaitable[Sequence[Object]]]
"""Writes a step's objects, ends its pods, and returns the objects as they are now. Raises Transient, or SpecError when
refused (422)."""
Judge = Callable[[Object], Verdict]
Before = Callable[[Step], Predecessor | None]
"""Returns the workload to wait for before a step; None if the step may go."""


Outlook = Callable[[Verdict], Verdict]
"""Returns how a verdict on a step counts. A preview takes what is under way for done."""


async def carry_out(
    plan: Plan,
    apply: Apply,
    judge: Judge,
    present: Callable[[Step], bool],
    before: Before = lambda _: None,
    outlook: Outlook = lambda verdict: verdict,
) -> Verdicts:
    """Return a verdict for each step. A step is held if something it comes after is not ready and (it does not exist
    yet or the blocker is a barrier or was refused): an outage of Keystone never blocks scaling Placement, but new pods
    wait for their schema, and running ones are not rolled onto what could not be made. Pods end only once all that the
    step comes after is ready.

    `present` says whether the workloads of a step exist, or all of it where it has none. What surrounds existing
    workloads is never held: pods that serve need a Service that was deleted, whatever else is to change.
    """
    verdicts: Verdicts = {}
    refused: set[Step] = set()
    for step in plan:
        blockers = [
            needed
            for needed in step.after
            if not verdicts[needed].ready
            and (needed.barrier or needed in refused or bool(step.ends) or not present(step))
        ]
        if step.verdict is not None and not step.objects and not step.ends:
            verdicts[step] = outlook(step.verdict)
        elif blockers:
            blocked_verdict = waiting("waiting for " + ", ".join(dict.fromkeys(b.name for b in blockers)))
            verdicts[step] = await _surrounded(step, blocked_verdict, apply, present)
        elif predecessor := before(step):
            message = f"waits for {predecessor.name}, {_reason([predecessor])}"
            blocked_verdict = Verdict(State.PROGRESSING, message, turn_after=predecessor)
            verdicts[step] = await _surrounded(step, blocked_verdict, apply, present)
        else:
            verdicts[step] = outlook(await _applied(step, apply, judge, refused))
    return verdicts


async def _surrounded(step: Step, blocked_verdict: Verdict, apply: Apply, present: Callable[[Step], bool]) -> Verdict:
    """Apply the supporting objects of a step that is held back, and return its verdict."""
    if not (step.workloads and step.surroundings and present(step)):
        return blocked_verdict
    verdict = await _applied(replace(step, objects=step.surroundings, verdict=None), apply, lambda _: READY, set())
    return blocked_verdict if verdict.ready else verdict


async def _applied(step: Step, apply: Apply, judge: Judge, refused: set[Step]) -> Verdict:
    try:
        child_verdicts = [judge(live) for live in await apply(step)]
    except Transient as error:
        return Verdict(State.RETRYING, str(error))
    except SpecError as error:
        refused.add(step)
        return error.verdict
    return worst([*child_verdicts, step.verdict or READY])


def conditions(plan: Plan, verdicts: Mapping[Step, Verdict]) -> dict[str, Verdict]:
    """Return a verdict for each condition, the worst of its steps, and `Ready`, which names causes, not what waits for
    them; and the plan's extra conditions.
    """
    grouped: dict[str, list[Verdict]] = {}
    for step, name in plan.condition.items():
        grouped.setdefault(name, []).append(verdicts[step])
    summary = {name: _summary(group) for name, group in grouped.items()}
    by_type = {condition_type(name): verdict for name, verdict in summary.items()}
    return {**by_type, **plan.outcome.extra_conditions, "Ready": _ready(grouped)}


def _summary(group: Sequence[Verdict]) -> Verdict:
    """Return the worst verdict of a condition's steps. A step that only waits for another one hides no cause: that of
    pods that end again and again counts as a failure only after minutes.
    """
    telling = [each for each in group if each.state is not State.WAITING or each.reason]
    return worst(group if all(each.ready for each in telling) else telling)


def progress_count(plan: Plan, verdicts: Mapping[Step, Verdict]) -> str:
    """Return how many conditions of a plan have all of their steps done: `2 of 7`."""
    pending = {name for step, name in plan.condition.items() if not verdicts[step].ready}
    total = len(set(plan.condition.values()))
    return f"{total - len(pending)} of {total}"


def _ready(grouped: Mapping[str, Sequence[Verdict]]) -> Verdict:
    """Return the sum of all conditions, with the number of those that only wait for their turn."""
    turns = [verdict.turn_after for group in grouped.values() for verdict in group if verdict.turn_after]
    at_work = {name: [v for v in group if not v.turn_after] for name, group in grouped.items()}
    verdict = ready({name: _summary(group) for name, group in at_work.items()})
    if not turns:
        return verdict
    waits = "; ".join(
        f"{count} {'workload waits' if count == 1 else 'workloads wait'} for {name}"
        for name, count in Counter(each.name for each in turns).items()
    )
    if verdict.ready or verdict.reason in HELD_REASONS:
        return progressing(f"{waits}, {_reason(turns)}")
    return replace(verdict, message=f"{verdict.message}; {waits}")


def _reason(predecessors: Sequence[Predecessor]) -> str:
    """Return why workloads, or resources that have not begun, come first, and when the wait for them ends."""
    if not all(each.name.partition("/")[0] in WORKLOADS for each in predecessors):
        return "which comes first"
    ends = [each.until for each in predecessors if each.until]
    latest = f", until {max(ends):%H:%M} UTC at the latest" if len(ends) == len(predecessors) else ""
    return f"which is being rolled out{latest}"


def condition_type(name: str) -> str:
    """Return the condition of a group: `Database` reports as DatabaseReady; a name that already says what is true stays
    as it is.
    """
    return name if name.endswith(("Cached", "Connected", "Ready", "Verified")) else f"{name}Ready"


def ready(summary: Mapping[str, Verdict]) -> Verdict:
    """Return the sum of all conditions. The cause is what makes no progress by itself, not what only waits for another
    step of the same plan.
    """
    pending = {name: verdict for name, verdict in summary.items() if not verdict.ready}
    if not pending:
        return READY
    waits_for_user = {n: v for n, v in pending.items() if v.reason in HELD_REASONS}
    paused = {n: v for n, v in waits_for_user.items() if v.reason == ROLLOUT_PAUSED}
    unfinished = {n: v for n, v in pending.items() if n not in waits_for_user}
    telling = {n: v for n, v in unfinished.items() if v.state is not State.WAITING or v.reason}
    # What a user holds tells nothing of what is not done besides. Steps may wait for a roll-out, none for the last one.
    causes = telling or paused or unfinished or waits_for_user
    state = max(v.state for v in causes.values())
    reason = next((v.reason for v in causes.values() if v.state is state and v.reason), "")
    return Verdict(state, _text(causes), reason, incomplete=all_incomplete(causes.values()))


def _text(causes: Mapping[str, Verdict]) -> str:
    """Return the messages of causes, each with its names; those of services that hold an upgrade differ in names
    alone.
    """
    names: dict[str, list[str]] = {}
    for name, verdict in causes.items():
        text = verdict.message
        if verdict.reason == UPGRADE_HELD:
            text = text.rpartition(f"{UPGRADE}: ")[2]
        names.setdefault(text, []).append(name)
    return "; ".join(
        text if _names_itself(subjects, text) else ": ".join(filter(None, (", ".join(subjects), text)))
        for text, subjects in names.items()
    )


def _names_itself(subjects: Sequence[str], text: str) -> bool:
    """Return True if a message begins with what it is about: `nova-conductor: …` of Conductor, `Nova/nova: …`."""
    beginning, colon, _ = text.partition(": ")
    letters = _NO_LETTER.sub("", beginning.lower())
    return len(subjects) == 1 and bool(colon) and " " not in beginning and subjects[0].lower() in letters
