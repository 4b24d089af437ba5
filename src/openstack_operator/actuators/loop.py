"""The one loop of find, create, update, delete that keeps things outside Kubernetes as their specs say."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Protocol

from ..plan import SpecError, Transient

Facets = Mapping[str, object]
"""Properties of a thing that can differ, by names fit for a log line. Values are compared, never shown: some are
secrets."""


class Conflict(Transient):
    """Another client created the same thing at the same time."""


class Refused(Exception):
    """The remote side understood the request and does not accept it; becomes a SpecError, which names the field."""


class Thing(Protocol):
    """One thing on a remote side, for the length of one pass; it may remember what `find` saw."""

    name: str
    """As in `schema nova`."""
    path: str
    """The field of the spec to blame when the remote side refuses the thing."""

    @property
    def desired(self) -> Facets:
        """Facets as the spec says."""
        ...

    def find(self) -> Facets | None:
        """Return the facets of the remote side; None where the thing does not exist."""
        ...

    def create(self) -> None:
        """Create the thing as wanted. Raises Conflict if it exists already."""
        ...

    def update(self, changed: frozenset[str]) -> None:
        """Make each of the changed facets as wanted; they may be present on either side."""
        ...

    def delete(self) -> None:
        """Delete the thing that was found."""
        ...


def ensure(things: Iterable[Thing]) -> list[str]:
    """Make all things as wanted, in this order, and return what had to be done, a sentence each.

    Raises Transient where the remote side is out of reach and SpecError where it refuses.
    """
    return [change for thing in things if (change := _ensure_one(thing))]


def remove(things: Iterable[Thing]) -> None:
    """Delete all things, in this order. Raises as `ensure` does."""
    for thing in things:
        with _blaming(thing.path):
            if thing.find() is not None:
                thing.delete()


@contextmanager
def _blaming(path: str) -> Generator[None]:
    try:
        yield
    except Refused as refused:
        raise SpecError(path, str(refused)) from None


def _ensure_one(thing: Thing) -> str:
    with _blaming(thing.path):
        actual = thing.find()
        if actual is None:
            try:
                thing.create()
            except Conflict:
                # Another worker was quicker, as for the project all service users share.
                if (actual := thing.find()) is None:
                    raise
            else:
                return f"{thing.name} created"
        if not (changed := _differences(actual, thing.desired)):
            return ""
        thing.update(changed)
        return f"{thing.name} repaired: {_describe(changed, thing.desired)}"


def _describe(changed: frozenset[str], desired: Facets) -> str:
    """Name the facets of the spec, and count all further ones: their names are the remote side's own text."""
    names = sorted(changed & desired.keys())
    unnamed_count = len(changed) - len(names)
    return ", ".join([*names, *([f"{unnamed_count} that the spec does not name"] if unnamed_count else [])])


def _differences(actual: Facets, desired: Facets) -> frozenset[str]:
    return frozenset(
        facet
        for facet in {*actual, *desired}
        if (facet in actual, actual.get(facet)) != (facet in desired, desired.get(facet))
    )
