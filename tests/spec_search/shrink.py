"""A failing sequence of specs, made as short as it still fails, down to one field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from .admission import refusal
from .bases import Base
from .mutations import Mutation, Place
from .search import Walk
from .world import Variant


def problems_of(base: Base, path: Sequence[Any], variant: Variant = lambda _: None) -> list[str]:
    """Return the problems of a sequence of specs: those of its last step, none if the API server refuses one before."""
    walk = Walk(base, variant)
    try:
        problems: list[str] = []
        for number, spec in enumerate(path):
            if number and refusal(walk.schema, path[number - 1], spec):
                return []
            problems = walk.go(spec)
        return problems
    finally:
        walk.close()


def shrink(base: Base, path: list[Any], variant: Variant = lambda _: None) -> tuple[list[Any], list[Mutation]]:
    """Return a shorter sequence that fails, too, and the fields that its last change but the way back is about."""

    def fails(path: Sequence[Any]) -> bool:
        return bool(problems_of(base, path, variant))

    number = 0
    while number < len(path) - 1:
        shorter = path[:number] + path[number + 1 :]
        if fails(shorter):
            path = shorter
        else:
            number += 1
    if len(path) < 2:
        return path, []
    # The change that matters comes first; after it may be a way back.
    old, new, rest = path[0], path[1], path[2:]
    fields = list(deltas(old, new))
    for field in fields:
        if len(fields) > 1 and fails([old, with_field := field.apply({}, old), *rest]):
            return [old, with_field, *rest], [field]
    return path, fields


def deltas(old: Any, new: Any, place: Place = ()) -> Iterator[Mutation]:
    """Yield the changes that make one spec another, each of one field."""
    if isinstance(old, dict) and isinstance(new, dict):
        before, after = cast("dict[str, Any]", old), cast("dict[str, Any]", new)
        for name in before | after:
            inner = (*place, name)
            path = "spec" + "".join(f".{each}" for each in inner)
            if name not in after:
                yield Mutation(path, "remove", inner, is_removal=True)
            elif name not in before:
                yield Mutation(path, "set to", inner, after[name])
            else:
                yield from deltas(before[name], after[name], inner)
    elif old != new:
        yield Mutation("spec" + "".join(f".{each}" for each in place), "set to", place, new)
