"""Kinds of work for the engine: services plan Kubernetes objects, actuators change remote systems."""

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
"""A look at the live world before planning; its result becomes `ctx.facts`. Raises Transient."""
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
    """True if on deletion its steps go in reverse order, each once the one after it is gone; a function of the spec if
    that differs within a kind."""
    phases: Phases | None = None
    """Function that computes `status.phase`."""


@dataclass(frozen=True, kw_only=True)
class Actuator:
    """A resource that becomes something outside Kubernetes: an SQL account, a user of Keystone."""

    resource: Resource[Any]
    ensure: Callable[[Context[Any]], Sequence[str]]
    """Function that makes the remote side as the spec says and returns its changes, a sentence each. Blocking; runs in
    a thread. Raises Transient when the remote side is out of reach, SpecError when it refuses.
    """
    remove: Callable[[Context[Any]], None]
    """Function that removes what `ensure` made; no error if it is gone already. Blocking; raises as `ensure` does."""
    observe: Callable[[Context[Any]], Outcome] | None = None
    """Function that reads the remote side after `ensure`, with the same rules, for the `details` of the status that
    only this kind has, and for extra conditions, with `Ready` if that does not follow from `ensure` alone.
    """
    external_kind: Callable[[Any], str] | None = None
    """Function from a spec to the handle of another operator's kind that has an object of the same name for the same
    thing; empty for none. That object is deleted first, and is created again if `ensure` raises Drifted.
    """
    claims: Claims | None = None
    """Function that returns the names that only one resource may have: of several that claim the same, the oldest has
    it. The others are not ensured, and removed with their fields in `ctx.taken`.
    """
    interval: timedelta = timedelta(minutes=1)
    """Time between two passes, since nothing reports changes of the remote side."""
