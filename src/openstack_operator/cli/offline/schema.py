"""Structural schemas applied as the API server does it: strictly, with defaults, all problems at once."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from .documents import steps_to, type_name

Schema = Mapping[str, Any]
RuleCheck = Callable[[str, Any], str]
"""Evaluates a CEL rule over a value: empty where it holds, `false` where not, otherwise why it cannot be evaluated."""

INT64 = 2**63
_LONGEST = 4096
"""Characters of a text that a pattern is tried on."""
_ROUNDS = 10
"""Times that what is left of a value is looked at again: without a field, what is around it may be wrong."""
BROKEN_RULE = "false"
_FIELDS_OF_SELF = re.compile(r"\bself\b((?:\.[A-Za-z]\w*\b(?!\())*)")
"""Fields that a rule looks at; names with parentheses are functions."""


class Problem(NamedTuple):
    """A value that the API server would refuse."""

    path: str
    message: str


def with_defaults(schema: Schema, value: Any) -> Any:
    """Return a copy as the API server stores it: nulls left out, defaults filled in, numbers of the type the schema
    names.
    """
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        properties: Mapping[str, Schema] = schema.get("properties", {})
        rest = _rest(schema)
        filled: dict[str, Any] = {}
        for name, entry in fields.items():
            inner = properties.get(name, rest)
            if inner is None:
                filled[name] = entry
            elif entry is not None:
                filled[name] = with_defaults(inner, entry)
        for name, inner in properties.items():
            if name not in filled and "default" in inner:
                filled[name] = with_defaults(inner, inner["default"])
        return filled
    if isinstance(value, list):
        return [with_defaults(schema.get("items") or {}, entry) for entry in cast("list[Any]", value)]
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def validate(schema: Schema, value: Any, rules: RuleCheck | None = None) -> list[Problem]:
    """Return everything that the API server would refuse, by path; `value` has its defaults already. A rule is
    evaluated if all that it looks at has the right type; the API server evaluates none until everything has.
    """
    checker = _Checker(rules)
    checker.check(schema, value, "")
    return checker.problems


def well_formed(schema: Schema, value: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Return the value without the fields whose own schema refuses them, which get their defaults; and their paths.
    None where nothing would be left.
    """
    left_out: list[str] = []
    for _ in range(_ROUNDS):
        checker = _Checker(None)
        checker.check(schema, value, "")
        if not (refused := [*checker.malformed, *checker.unfit]):
            return value, tuple(dict.fromkeys(left_out))
        fields = [_field_at(value, path) for path in refused]
        if any(len(steps) < 2 for steps in fields):
            return None
        for steps in fields:
            value = _without(value, steps)
            left_out.append("".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)[1:])
        value = with_defaults(schema, value)
    return None


def _field_at(value: Any, path: str) -> tuple[str | int, ...]:
    """Return the steps to an existing field: for a missing one those to the object around it, for an item those to its
    list, whose other items would have other indexes without it.
    """
    steps = steps_to(value, path)
    while steps and isinstance(steps[-1], int):
        steps = steps[:-1]
    return steps


def _without(value: Any, steps: Sequence[str | int]) -> Any:
    """Return a copy without the field at the end of the steps."""
    step, *rest = steps
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_without(item, rest) if index == step else item for index, item in enumerate(items)]
    fields = cast("dict[str, Any]", value)
    if rest:
        return {name: _without(field, rest) if name == step else field for name, field in fields.items()}
    return {name: field for name, field in fields.items() if name != step}


class _Checker:
    def __init__(self, rules: RuleCheck | None) -> None:
        self._rules = rules
        self.problems: list[Problem] = []
        self.malformed: list[str] = []
        """Paths of wrong values, unknown fields aside, for which no rule is evaluated."""
        self.unfit: list[str] = []
        """Paths of values out of bounds, for which rules are evaluated as well."""

    def check(self, schema: Schema, value: Any, path: str) -> None:
        """Check the value and everything in it."""
        if wrong := _wrong_type(schema, value):
            self._malformed(path, wrong)
            return
        before = len(self.malformed)
        if isinstance(value, dict):
            self._object(schema, cast("dict[str, Any]", value), path)
        elif isinstance(value, list):
            self._array(schema, cast("list[Any]", value), path)
        else:
            for message in _unfit(schema, value):
                self._malformed(path, message)
        inside = [_components(malformed[len(path) :]) for malformed in self.malformed[before:]]
        unruled = not self._rules or self._ask(schema, value, path, inside)
        # A rule says the same in words where there is one beside a pattern.
        if unruled and not isinstance(value, (dict, list)):
            for message in _out_of_range(schema, value):
                self.unfit.append(path)
                self.problems.append(Problem(path, message))

    def _malformed(self, path: str, message: str) -> None:
        self.malformed.append(path)
        self.problems.append(Problem(path, message))

    def _object(self, schema: Schema, value: dict[str, Any], path: str) -> None:
        properties: Mapping[str, Schema] = schema.get("properties", {})
        rest = _rest(schema)
        for name in schema.get("required") or ():
            if name not in value:
                self._malformed(_join(path, name), "Required value")
        for name, entry in value.items():
            inner = properties.get(name, rest)
            if inner is not None:
                self.check(inner, entry, _join(path, name))
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                self.problems.append(Problem(_join(path, name), _unknown(name, properties)))
        for message in _size(schema, "Properties", len(value), "properties"):
            self._malformed(path, message)

    def _array(self, schema: Schema, value: list[Any], path: str) -> None:
        for message in _size(schema, "Items", len(value), "items"):
            self._malformed(path, message)
        items: Schema = schema.get("items") or {}
        for index, entry in enumerate(value):
            self.check(items, entry, f"{path}[{index}]")
        for index, entry in _repeated(schema, value):
            self._malformed(f"{path}[{index}]", f"Duplicate value: {entry}")

    def _ask(self, schema: Schema, value: Any, path: str, malformed: Sequence[Sequence[str]]) -> bool:
        """Return True if all rules hold that look at nothing malformed."""
        assert self._rules
        before = len(self.problems)
        for rule in schema.get("x-kubernetes-validations") or ():
            if any(_are_related(looked_at, field) for looked_at in _fields_of(rule["rule"]) for field in malformed):
                continue
            answer = self._rules(rule["rule"], value)
            if answer:
                why = rule.get("message", rule["rule"]) if answer == BROKEN_RULE else f"cannot be evaluated: {answer}"
                at = f"{path}{rule.get('fieldPath', '')}".lstrip(".")
                self.problems.append(Problem(at, f"Invalid value: {why}"))
        return len(self.problems) == before


@cache
def _fields_of(rule: str) -> tuple[tuple[str, ...], ...]:
    """Return the fields a rule looks at."""
    return tuple(_components(match[1]) for match in _FIELDS_OF_SELF.finditer(rule))


def are_related(path: str, other_path: str) -> bool:
    """Return True if one of two fields is the other, or within it."""
    return _are_related(_components(path), _components(other_path))


def _are_related(field: Sequence[str], other_field: Sequence[str]) -> bool:
    return all(one == another for one, another in zip(field, other_field, strict=False))


def _components(path: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[.\[\]]", path) if part)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _rest(schema: Schema) -> Schema | None:
    """Return the schema of properties that are not named."""
    rest = schema.get("additionalProperties")
    return rest if isinstance(rest, Mapping) else {"x-kubernetes-preserve-unknown-fields": True} if rest else None


def _unknown(name: str, properties: Mapping[str, Schema]) -> str:
    close = difflib.get_close_matches(name, properties, n=3, cutoff=0.5)
    close = close or [each for each in properties if each.lower() == name.lower()]
    return f"unknown field; did you mean {' or '.join(close)}?" if close else "unknown field; remove it"


def _wrong_type(schema: Schema, value: Any) -> str:
    expected = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        expected, good = "integer or string", type(value) in {int, str}
    elif expected is None or (value is None and schema.get("nullable")):
        return ""
    elif expected == "number":
        good = type(value) in {int, float}
    elif expected == "integer":
        good = type(value) is int
    else:
        good = type_name(value) == expected
    if good and type(value) is int and not -INT64 <= value < INT64:
        return f"Invalid value: must be of 64 bits, at most {INT64 - 1}"
    return "" if good else f"Invalid value: must be of type {expected}, not {type_name(value)}"


def _unfit(schema: Schema, value: Any) -> Iterator[str]:
    """Yield the mistakes for which the API server evaluates no rules about a value."""
    if (choices := schema.get("enum")) and not any(value == each and type(value) is type(each) for each in choices):
        supported = ", ".join(json.dumps(each) for each in choices)
        yield f"Unsupported value: {json.dumps(value)}: supported values: {supported}"
    if isinstance(value, str):
        yield from _size(schema, "Length", len(value), "chars long")


def _out_of_range(schema: Schema, value: Any) -> Iterator[str]:
    if type(value) in {int, float}:
        yield from _bounds(schema, value)
    if isinstance(value, str):
        pattern = schema.get("pattern")
        if pattern and len(value) <= schema.get("maxLength", _LONGEST) and not _compiled(pattern).search(value):
            yield f"Invalid value: should match '{pattern}'"
        if schema.get("format") == "date-time" and not _DATE_TIME.match(value):
            yield "Invalid value: should be a date and time such as 2026-01-31T12:00:00Z"


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z")


def _bounds(schema: Schema, value: float) -> Iterator[str]:
    if (least := schema.get("minimum")) is not None and value < least:
        yield f"Invalid value: {value}: should be greater than or equal to {least}"
    if (most := schema.get("maximum")) is not None and value > most:
        yield f"Invalid value: {value}: should be less than or equal to {most}"
    if (step := schema.get("multipleOf")) is not None and value % step:
        yield f"Invalid value: {value}: should be a multiple of {step}"


def _size(schema: Schema, keyword: str, size: int, unit: str) -> Iterator[str]:
    verb = "be" if keyword == "Length" else "have"
    if size < (least := schema.get(f"min{keyword}", 0)):
        yield f"Invalid value: should {verb} at least {least} {unit}"
    if size > (most := schema.get(f"max{keyword}", size)):
        yield f"Invalid value: should {verb} at most {most} {unit}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern of Go, whose $ is the very end."""
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern))


def _repeated(schema: Schema, value: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Yield index and key of each entry whose key an earlier one has."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    if kind not in {"map", "set"}:
        return
    marks: set[str] = set()
    for index, entry in enumerate(value):
        if kind == "map" and not isinstance(entry, dict):
            continue
        mark = json.dumps({key: entry.get(key) for key in keys} if kind == "map" else entry, default=str)
        if mark in marks:
            yield index, mark
        marks.add(mark)
