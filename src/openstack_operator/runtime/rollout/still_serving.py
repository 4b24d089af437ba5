"""Does all that served go on serving? Read from what a resource made, never from what its status said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from ...kube import is_dispensable, is_new, is_own, serves
from ...plan import Object, Plan, Step, Verdict
from ..cache.entries import Cached
from ..kubernetes.kinds import POD, Kind

Find = Callable[[Object], Object | None]
"""Returns the live object that an object of a plan describes; None if there is none."""


def with_service(
    verdict: Verdict, plan: Plan, verdicts: Mapping[Step, Verdict], find: Find, *, is_installed: bool
) -> Verdict:
    """Return the verdict on a resource, which also says whether all that served still serves."""
    if verdict.ready:
        return verdict
    return replace(verdict, serves=still_serves(plan, verdicts, find, is_installed=is_installed))


def still_serves(plan: Plan, verdicts: Mapping[Step, Verdict], find: Find, *, is_installed: bool) -> bool:
    """Return True if all that served still serves, while steps of the plan are not done.

    What comes before programs that serve, such as an account that is replaced, or the job of another schema, does not
    count: those programs run on what they have. `is_installed` says that the resource once was complete. In one that
    never was, a step that is not there yet is a part of the service that no user has had.
    """
    answers = {step: _serves(step, find) for step in plan}
    inputs = _inputs(step for step, answer in answers.items() if answer and _programs(step))
    pending = [step for step in plan if not verdicts[step].ready]
    return any(answers.values()) and all(
        _goes_on(step, find, answer=answers[step], is_input=step in inputs, is_installed=is_installed)
        for step in pending
    )


def still_serves_without_plan(children: Iterable[tuple[Kind, Cached]], uid: str, *, is_installed: bool) -> bool:
    """Return True if all programs and resources that a resource made serve, whatever its spec asks for now."""
    lives = [child.decode() for _, child in children if (owner := child.meta.controller) and owner.uid == uid]
    answers = [serves(live) for live in lives]
    return is_installed and True in answers and False not in answers


def _goes_on(step: Step, find: Find, *, answer: bool | None, is_input: bool, is_installed: bool) -> bool:
    """Return True if a step that is not done takes nothing from those whom the resource serves."""
    if answer or (step.verdict and step.verdict.serves is not None):
        return bool(answer or (step.verdict and step.verdict.serves))
    if is_input and not step.workloads:
        return True
    # A service that is added to a cloud takes nothing from it.
    is_addition = all((live := find(obj)) is None or is_new(live) for obj in step.objects if is_own(obj))
    return is_installed and (answer is None or (is_addition and not step.workloads))


def _serves(step: Step, find: Find) -> bool | None:
    """Return whether the objects of a step serve; None if no user is served by them."""
    if step.verdict and step.verdict.serves is False:
        return False
    # Pods that a step only labels belong to a workload, which answers for them.
    answers = [_object_serves(obj, find(obj)) for obj in step.objects if obj["kind"] != POD.kind]
    return None if not answers or set(answers) == {None} else False not in answers


def _object_serves(desired: Object, live: Object | None) -> bool | None:
    if live is None:
        # Something that is not made yet serves as little as one that has no status.
        return serves({**desired, "status": {}})
    return serves(live)


def _programs(step: Step) -> bool:
    return any(not is_dispensable(obj) for obj in step.workloads)


def _inputs(steps: Iterable[Step]) -> set[Step]:
    """Return the steps that these come after, directly or not."""
    inputs, queue = set[Step](), [*steps]
    while queue:
        for needed in queue.pop().after:
            if needed not in inputs:
                inputs.add(needed)
                queue.append(needed)
    return inputs
