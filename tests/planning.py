"""Plans of one resource, with what tests of it have in common."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from openstack_operator.api import Resource
from openstack_operator.plan import Context, Key, Object, Plan, Release, key, parse
from openstack_operator.testing import context, granted

T = TypeVar("T")
RELEASE = Path(__file__).parent.parent / "releases" / "2025.1.yaml"


@cache
def release_of(profile: str) -> Release:
    """Return the release with the images of a profile. A file is read once in each process."""
    return parse(yaml.load(RELEASE.read_bytes(), yaml.CSafeLoader), profile)


class Planned(Protocol):
    """A function that plans a resource; `changes` are fields of its context."""

    def __call__(self, release: Release, spec: Mapping[str, Any] | None = None, **changes: Any) -> Plan: ...


def planner(
    plan: Callable[[Context[Any]], Plan],
    resource: Resource[Any],
    spec: Mapping[str, Any] | None = None,
    **given: Any,
) -> Planned:
    """Return a function that plans a resource with these fields of its spec and its context. A field that it is called
    with replaces the one of that name.
    """
    common_spec = spec or {}

    def planned(release: Release, spec: Mapping[str, Any] | None = None, **changes: Any) -> Plan:
        return plan(context(resource, {**common_spec, **(spec or {})}, release=release, **{**given, **changes}))

    return planned


def objects(plan: Plan) -> dict[Key, Object]:
    """Return the objects of a plan, by kind and name."""
    return {key(obj): obj for obj in plan.objects}


def rolled_out(plan: Plan) -> dict[Key, Object]:
    """Return the objects of a plan, by kind and name, as their controllers leave them."""
    return {name: granted(obj) for name, obj in objects(plan).items()}


def draws() -> Callable[[], str]:
    """Return a source of passwords, each of which is new, also in a later plan."""
    return lambda: f"drawn-{next(_NUMBERS)}"


_NUMBERS = count()


def copied(value: T) -> T:
    """Return a deep copy of an object of Kubernetes, or of several: five times as fast as `deepcopy`."""
    return pickle.loads(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
