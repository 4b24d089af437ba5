"""What the engine runs: services, which plan Kubernetes objects, and actuators, which work on what lives elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ..api import Model, Resource
from ..plan import Claims, Context, Outcome, Plan, Release, Verdict

if TYPE_CHECKING:
    from .client import Client

Planner = Callable[[Context[Any]], Plan]
Observer = Callable[["Client", Context[Any]], Awaitable[Mapping[str, Any]]]
"""Looks at the live world before planning; what it finds becomes `ctx.facts`. Raises Transient."""
Phases = Callable[[Mapping[str, Verdict]], str]
"""The phase a resource is in, from its conditions by type (`DatabaseReady`, ..., `Ready`)."""
Releases = Callable[[Model], Release]
"""The release a spec asks for. Raises SpecError where there is no such release or profile."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A resource that becomes Kubernetes objects."""

    resource: Resource[Any]
    plan: Planner
    observe: Observer | None = None
    """The only I/O a service may own."""
    teardown: bool | Callable[[Any], bool] = False
    """Whether on deletion its steps go in reverse order, each once the one after it is gone; as its spec says, where
    that is not so for all of a kind."""
    phases: Phases | None = None
    """Fills `status.phase`."""


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """A resource that becomes something outside Kubernetes: an SQL account, a user of Keystone."""

    resource: Resource[Any]
    ensure: Callable[[Context[Any]], Sequence[str]]
    """Makes the remote side as the spec says and tells what it changed, a sentence each. Blocking; runs in a thread.
    Raises Transient when the remote side is out of reach, SpecError when it refuses.
    """
    remove: Callable[[Context[Any]], None]
    """Removes what `ensure` made; no error where it is gone already. Blocking; raises as `ensure` does."""
    seen: Callable[[Context[Any]], Outcome] | None = None
    """What is out there besides: `details` for the fields of the status that only this kind has, and conditions in
    `told`, with `Ready` where it is not to follow from `ensure` alone. Asked for after `ensure`, as that is.
    """
    beside: Callable[[Any], str] | None = None
    """For a spec, handle of the kind of another operator that has an object of the same name for the same thing; empty
    where this one is alone. That one goes first; it is made anew where `ensure` raises Drifted.
    """
    claims: Claims | None = None
    """What a resource has for itself alone: of several that claim the same, the first has it. The others are not
    ensured, and removed with their fields in `ctx.taken`.
    """
    interval: timedelta = timedelta(minutes=1)
    """How often it is looked at again, since nothing tells us of changes out there."""
