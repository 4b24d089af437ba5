"""The language services speak: steps, which refer to each other by value, make a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..api import handle
from .verdict import Verdict

Object = dict[str, Any]
"""A Kubernetes object in the shape of its YAML."""

WORKLOADS = {"Deployment", "StatefulSet", "DaemonSet"}
"""Kinds that run pods for good."""

SERVERS, CLIENTS, HOSTS, AFTER_HOSTS = range(4)
"""Turns of programs that move to another broker: those that answer RPC and are copied; those that only send it; those
of which each host has one; and those that do nothing before they have heard of hosts."""

Key = tuple[str, str]
"""(handle of the kind, name) of an object in the namespace of its owner."""


def key(obj: Mapping[str, Any]) -> Key:
    """Return the handle of an object's kind, and its name."""
    return handle(obj["apiVersion"], obj["kind"]), obj["metadata"]["name"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """Objects that belong together, and the steps that must be ready before they are applied."""

    name: str
    """A noun; the condition it reports as is `<name>Ready`."""
    objects: tuple[Object, ...] = ()
    after: tuple[Step, ...] = ()
    guarded: bool = False
    """Write only against the version that was read, or create; a clash means our view was stale."""
    barrier: bool = False
    """Holds back every later change of what needs it, not only its first appearance."""
    verdict: Verdict | None = None
    """Set where the answer is known before anything is applied: another resource's readiness, an observation."""
    substeps: tuple[Step, ...] = ()
    """Come with this one, right before it, and report as conditions of their own."""
    wake: datetime | None = None
    """Time at which its objects change without any other cause."""
    turn: int = CLIENTS
    """Turn of its programs when they move to another broker."""
    copied: bool = False
    """True if a copy of its programs may run beside them, since they share only a database: it serves the first broker
    during a move to another one."""
    urgent: bool = False
    """True if its programs are refused until their pods are replaced, so that they wait for no other roll-out."""
    ends: tuple[Object, ...] = ()
    """Pods to delete, by name and uid, so that their workload makes them again. They run on until all steps that this
    one comes after are ready."""

    @property
    def workloads(self) -> tuple[Object, ...]:
        """Objects that run pods."""
        return tuple(obj for obj in self.objects if obj["kind"] in WORKLOADS)

    @property
    def surroundings(self) -> tuple[Object, ...]:
        """Objects by which the workloads are reached, counted and protected."""
        return tuple(obj for obj in self.objects if obj["kind"] not in WORKLOADS)


@dataclass(frozen=True)
class Group:
    """Steps reported as one condition, so that ten cells do not make sixty."""

    name: str
    steps: Sequence[Step | Group]


def _flat(items: Iterable[Step | Group]) -> Iterator[Step]:
    for item in items:
        if isinstance(item, Step):
            yield item
        else:
            yield from _flat(item.steps)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Results of a plan for the status of its resource, besides conditions."""

    published: Mapping[str, str] = field(default_factory=dict[str, str])
    """The contract other resources read through a Ref: addresses and names, never secrets."""
    endpoint: str | None = None
    """The address users call, shown in status."""
    wake: datetime | None = None
    """Time at which the plan changes without any other cause: the next rotation."""
    members: Sequence[Mapping[str, str]] = ()
    """Members of a cluster, each with a unique `name`, and `role`, `state` and `message` where there is one."""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of the status that only this kind has, as `Resource.status` declares them."""
    extra_conditions: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Conditions by type about observations elsewhere: Ready does not follow from them."""
    remarks: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Remarks of conditions on fields of the spec: text by path, by type of the condition."""


class Plan:
    """Everything that should exist for one resource. An object left out is deleted.

    Pods are an exception, since others make and delete them: one in a plan (name, namespace, uid, labels, annotations)
    gets those labels and annotations as long as that very pod exists, and loses those that earlier plans gave it.

    Raises ValueError when a step comes before one it needs, two steps make the same object, or a Pod has no uid.

    `preflight` is none of its steps: it checks the release before an upgrade.
    """

    def __init__(
        self,
        *items: Step | Group,
        published: Mapping[str, str] | None = None,
        endpoint: str | None = None,
        wake: datetime | None = None,
        members: Sequence[Mapping[str, str]] = (),
        details: Mapping[str, Any] | None = None,
        extra_conditions: Mapping[str, Verdict] | None = None,
        preflight: Step | None = None,
    ) -> None:
        self.condition: dict[Step, str] = {}
        self.preflight = preflight
        self.release = ""
        """Release of OpenStack that it is made for, if that is not the spec's."""
        self._owners: dict[Key, Step] = {}
        for item in items:
            for step in _flat((item,)):
                for substep in step.substeps:
                    self._add(substep, item.name if isinstance(item, Group) else substep.name)
                self._add(step, item.name)
        member_rows = tuple({name: value for name, value in member.items() if value} for member in members)
        self.outcome = Outcome(
            published=dict(published or {}),
            endpoint=endpoint,
            wake=min((at for at in (wake, *(step.wake for step in self)) if at), default=None),
            members=member_rows,
            details=dict(details or {}),
            extra_conditions=dict(extra_conditions or {}),
        )

    def _add(self, step: Step, condition: str) -> None:
        if step in self.condition:
            return
        if late := [needed.name for needed in step.after if needed not in self.condition]:
            raise ValueError(f"{step.name} comes before {', '.join(late)}, which it needs")
        for obj in (*step.objects, *step.ends):
            if obj["kind"] == "Pod" and not obj["metadata"].get("uid"):
                raise ValueError(f"{step.name} names Pod/{obj['metadata']['name']} without its uid")
            if (owner := self._owners.setdefault(key(obj), step)) is not step:
                raise ValueError(f"{'/'.join(key(obj))} is made by {owner.name} and by {step.name}")
        self.condition[step] = condition

    def with_conditions(self, extra_conditions: Mapping[str, Verdict]) -> Plan:
        """Return the plan with further conditions, from which Ready does not follow."""
        changed = copy(self)
        conditions = {**self.outcome.extra_conditions, **extra_conditions}
        changed.outcome = replace(self.outcome, extra_conditions=conditions)
        return changed

    def with_remarks(self, remarks: Mapping[str, Mapping[str, str]]) -> Plan:
        """Return the plan with what conditions say of fields."""
        changed = copy(self)
        changed.outcome = replace(self.outcome, remarks=remarks)
        return changed

    def of_release(self, release: str) -> Plan:
        """Return the plan as that of a release which is not the spec's."""
        changed = copy(self)
        changed.release = release
        return changed

    def with_steps(self, *steps: Step) -> Plan:
        """Return the plan with further steps at its end."""
        changed = copy(self)
        changed.condition, changed._owners = dict(self.condition), dict(self._owners)
        for step in steps:
            changed._add(step, step.name)
        wake = min((at for at in (self.outcome.wake, *(step.wake for step in steps)) if at), default=None)
        changed.outcome = replace(self.outcome, wake=wake)
        return changed

    def rearranged(self, changed_steps: Mapping[Step, Step], *new_steps: Step, name: str) -> Plan:
        """Return the plan with some of its steps in another form, and with `new_steps`, which report as the condition
        `name`. What a step comes after may be any step of the plan, or a new one; all others keep their order.
        """
        changed = copy(self)
        changed.condition, changed._owners = {}, {}
        placed: dict[Step, Step] = {}

        def place(step: Step) -> Step:
            if step in placed:
                return placed[step]
            form = changed_steps.get(step, step)
            after, substeps = tuple(map(place, form.after)), tuple(map(place, form.substeps))
            is_same = form is step and (after, substeps) == (form.after, form.substeps)
            placed[step] = new = step if is_same else replace(form, after=after, substeps=substeps)
            changed._add(new, self.condition.get(step, name))
            return new

        for step in (*self, *new_steps):
            place(step)
        wake = min((at for at in (self.outcome.wake, *(step.wake for step in new_steps)) if at), default=None)
        changed.outcome = replace(self.outcome, wake=wake)
        return changed

    def with_last(self, is_last: Callable[[Step], bool]) -> Plan:
        """Return the plan with these of its steps at its end, each after all that run pods for good."""
        changed = copy(self)
        changed.condition, changed._owners = {}, {}
        programs = [step for step in self if step.workloads]
        for step in sorted(self, key=is_last):
            after = [*step.after, *(each for each in programs if each not in step.after)]
            changed._add(replace(step, after=tuple(after)) if is_last(step) else step, self.condition[step])
        return changed

    def __iter__(self) -> Iterator[Step]:
        return iter(self.condition)

    @property
    def objects(self) -> Iterator[Object]:
        """Every object of the plan, in the order of its steps."""
        for step in self:
            yield from step.objects
