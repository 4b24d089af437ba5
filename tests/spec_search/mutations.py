"""Changes of a spec, drawn from its schema: what users mean, and what they do by mistake."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from openstack_operator.api import Resource
from tests.toggling import ABSENT, LISTED, Steps, dotted, entries_of, leaves, schema_at, spec_schema, values, with_value

from .world import NO_NODE, TOO_MUCH, UNKNOWN_IMAGE

Schema = Mapping[str, Any]
Place = tuple[str | int, ...]
"""Keys and indexes on the way to a value."""

NOTHING = "there-is-none"
"""Name of an object that does not exist."""
_TEXTS = ("", " ", "x" * 300, "ünï-codé", "a: b\n[DEFAULT]\ndebug = true", "%(user)s$(id)", "-1", "2" * 20)
_LISTED_CHANCE, _EXISTING_CHANCE = 0.5, 0.3
_SEVERAL = (1, 1, 1, 2, 3)


@dataclass(frozen=True)
class Mutation:
    """A change of one field."""

    path: str
    """As tests name it."""
    what: str
    place: Place | Steps
    value: Any = None
    is_removal: bool = False
    is_listed: bool = False
    """True if the place is one of the schema, and what is around it may have to be made."""

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" + ("" if self.is_removal else f" {json.dumps(self.value)[:120]}")

    def apply(self, schema: Schema, spec: Any) -> Any:
        """Return the spec with the change."""
        if self.is_listed:
            return with_value(spec, schema, (), cast("Steps", self.place), self.value)
        return _changed(spec, self.place, self.value, is_removal=self.is_removal)


def _changed(node: Any, place: Place, value: Any, *, is_removal: bool) -> Any:
    """Return a copy with a change at a place; the same where the place is not there."""
    step, rest = place[0], place[1:]
    is_there = isinstance(node, (list, dict)) and step in _keys(node)
    if not is_there and (rest or is_removal or not isinstance(node, dict)):
        return node
    changed: Any = copy.copy(node)
    if rest:
        changed[step] = _changed(changed[step], rest, value, is_removal=is_removal)
    elif is_removal:
        del changed[step]
    else:
        changed[step] = value
    return changed


def _keys(node: Any) -> Any:
    return range(len(node)) if isinstance(node, list) else node


def mutations(random: Random, resource: Resource[Any], spec: Any) -> list[Mutation]:
    """Return one change, or a few that may contradict each other."""
    count = random.choice(_SEVERAL)
    return [each for _ in range(count) if (each := _mutation(random, resource, spec)) is not None]


def _mutation(random: Random, resource: Resource[Any], spec: Any) -> Mutation | None:
    schema, chance = spec_schema(resource), random.random()
    if chance < _LISTED_CHANCE:
        return _toggled(random, resource, schema)
    existing = list(_existing(schema, spec, (), ()))
    if chance < _LISTED_CHANCE + _EXISTING_CHANCE and existing:
        place, inner, value = random.choice(existing)
        return _of_existing(random, place, inner, value)
    return _mistake(random, resource, schema)


_FIELDS: dict[str, tuple[Steps, ...]] = {}


def fields_of(resource: Resource[Any]) -> tuple[Steps, ...]:
    """Return the fields of a kind, those of entries of lists and maps among them."""
    if resource.handle not in _FIELDS:
        _FIELDS[resource.handle] = tuple(leaves(spec_schema(resource)))
    return _FIELDS[resource.handle]


def _field(random: Random, resource: Resource[Any], *ends: str) -> Steps | None:
    """Return one field, each branch of the schema as likely as the next one; of those that end so, if some do."""
    fields = [each for each in fields_of(resource) if not ends or each[-1].endswith(ends)]
    depth = 0
    while fields:
        branches = sorted({each[depth] for each in fields if len(each) > depth})
        if not branches:
            return fields[0]
        branch = random.choice(branches)
        fields = [each for each in fields if len(each) > depth and each[depth] == branch]
        depth += 1
        if len(fields) == 1:
            return fields[0]
    return None


def _toggled(random: Random, resource: Resource[Any], schema: Schema) -> Mutation | None:
    """Set a field to a value of its type: one that tests know, a member of its choices, or one at its limits."""
    if (steps := _field(random, resource)) is None:
        return None
    path, leaf = dotted(steps), schema_at(schema, steps)
    candidates: list[Any] = []
    for end, value in LISTED["values"].items():
        if path.endswith(f".{end}"):
            candidates += value if isinstance(value, list) else [value]
    candidates += [*values(leaf), *_limits(leaf)]
    return Mutation(path, "set to", steps, random.choice(candidates), is_listed=True) if candidates else None


def _limits(schema: Schema) -> Iterator[Any]:
    """Yield values at the limits of a type, and just beyond them."""
    if schema.get("type") in ("integer", "number"):
        low, high = schema.get("minimum", 0), schema.get("maximum", 2**31 - 1)
        yield from (low, high, low - 1, high + 1, 0)
    elif schema.get("type") == "string" and "enum" not in schema:
        yield from _TEXTS
        if (longest := schema.get("maxLength")) and longest < 1000:
            yield from ("a" * longest, "a" * (longest + 1))
    elif schema.get("type") == "array":
        yield []
    elif schema.get("type") == "object":
        yield {}


def _existing(schema: Schema, value: Any, place: Place, steps: Steps) -> Iterator[tuple[Place, Schema, Any]]:
    """Yield each value of a spec with its schema."""
    if place:
        yield place, schema, value
    if isinstance(value, dict):
        properties: Mapping[str, Schema] = schema.get("properties") or {}
        entries = entries_of(schema)
        for name, inner in cast("dict[str, Any]", value).items():
            of_inner = properties.get(name) or (entries[1] if entries and entries[0] == "{}" else None)
            if of_inner is not None:
                yield from _existing(of_inner, inner, (*place, name), (*steps, name))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[Any]", value)):
            yield from _existing(schema.get("items") or {}, inner, (*place, index), (*steps, "[]"))


def _of_existing(random: Random, place: Place, schema: Schema, value: Any) -> Mutation:
    """Remove or empty something that is there, or give an entry of a list or map another place."""
    path = "spec" + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place)
    actions = ["remove", "remove", "set to"]
    if isinstance(value, list) and value:
        actions += ["repeat an entry of", "reverse", "drop an entry of"]
    if isinstance(value, dict) and value and not schema.get("properties"):
        actions += ["delete a key of", "rename a key of"] * 2
    what = random.choice(actions)
    if what == "remove":
        return Mutation(path, what, place, is_removal=True)
    new: Any = copy.deepcopy(value)
    match what:
        case "repeat an entry of":
            new = [*new, random.choice(new)]
        case "reverse":
            new = new[::-1]
        case "drop an entry of":
            del new[random.randrange(len(new))]
        case "delete a key of":
            del new[random.choice(sorted(new))]
        case "rename a key of":
            new["renamed"] = new.pop(random.choice(sorted(new)))
        case _:
            candidates = [*values(schema), *_limits(schema)]
            new = random.choice(candidates) if candidates else new
    return Mutation(path, what, place, new)


def _mistake(random: Random, resource: Resource[Any], schema: Schema) -> Mutation | None:
    """Ask for something that does not exist, or that nobody can have."""
    kinds = ("name", "secretName", "image", "nodeSelector", "replicas", "cpu", "storageClass", "host")
    what = random.choice(kinds)
    if (steps := _field(random, resource, what.capitalize(), what)) is None:
        return None
    inner = schema_at(schema, steps)
    match what:
        case "name" | "secretName" | "storageClass":
            value: Any = NOTHING
        case "image":
            value = UNKNOWN_IMAGE
        case "nodeSelector":
            value = NO_NODE
        case "replicas":
            value = random.choice((0, 1, 2, 1000, 2**31 - 1))
        case "cpu":
            value = TOO_MUCH
        case _:
            value = "nowhere.example.org"
    if inner.get("type") not in (None, "string", "integer", "object") or (
        inner.get("type") == "object" and not isinstance(value, dict)
    ):
        return None
    return Mutation(dotted(steps), "mistake", steps, value, is_listed=True)


__all__ = ["ABSENT", "Mutation", "mutations"]
