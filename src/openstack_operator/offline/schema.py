"""Structural schemas applied as the API server does it: strictly, with defaults, all problems at once."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from .documents import type_name

Schema = Mapping[str, Any]
RuleCheck = Callable[[str, Any], str]
"""Evaluates a CEL rule over a value: empty where it holds, `false` where it does not, otherwise why nobody can tell."""

INT64 = 2**63
_LONGEST = 4096
"""Characters of a text that a pattern is tried on."""
BROKEN_RULE = "false"


class Problem(NamedTuple):
    """A value that the API server would refuse."""

    path: str
    message: str


def with_defaults(schema: Schema, value: Any) -> Any:
    """A copy as the API server stores it: nulls left out, defaults filled in, numbers of the type the schema names."""
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        properties: Mapping[str, Schema] = schema.get("properties", {})
        rest = _rest(schema)
        filled: dict[str, Any] = {}
        for name, entry in given.items():
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
    """Everything the API server would refuse, by path; `value` has its defaults already. A rule is asked where all it
    looks at is of the right type.
    """
    checker = _Checker(rules)
    checker.check(schema, value, "")
    return checker.problems


class _Checker:
    def __init__(self, rules: RuleCheck | None) -> None:
        self._rules = rules
        self.problems: list[Problem] = []

    def check(self, schema: Schema, value: Any, path: str) -> bool:
        """Whether nothing in it is wrong, unknown fields aside: no rule looks at those."""
        if wrong := _wrong_type(schema, value):
            return self._fail(path, wrong)
        sound = True
        if isinstance(value, dict):
            sound = self._object(schema, cast("dict[str, Any]", value), path)
        elif isinstance(value, list):
            sound = self._array(schema, cast("list[Any]", value), path)
        else:
            for message in _unfit(schema, value):
                sound = self._fail(path, message)
        unruled = not (sound and self._rules) or self._ask(schema, value, path)
        # A rule says the same in words where there is one beside a pattern.
        if unruled and not isinstance(value, (dict, list)):
            self.problems += [Problem(path, message) for message in _out_of_range(schema, value)]
        return sound

    def _fail(self, path: str, message: str) -> bool:
        self.problems.append(Problem(path, message))
        return False

    def _object(self, schema: Schema, value: dict[str, Any], path: str) -> bool:
        properties: Mapping[str, Schema] = schema.get("properties", {})
        rest, sound = _rest(schema), True
        for name in schema.get("required") or ():
            if name not in value:
                sound = self._fail(_join(path, name), "Required value")
        for name, entry in value.items():
            inner = properties.get(name, rest)
            if inner is not None:
                sound = self.check(inner, entry, _join(path, name)) and sound
            elif not schema.get("x-kubernetes-preserve-unknown-fields"):
                self._fail(_join(path, name), _unknown(name, properties))
        for message in _size(schema, "Properties", len(value), "properties"):
            sound = self._fail(path, message)
        return sound

    def _array(self, schema: Schema, value: list[Any], path: str) -> bool:
        sound = True
        for message in _size(schema, "Items", len(value), "items"):
            sound = self._fail(path, message)
        items: Schema = schema.get("items") or {}
        for index, entry in enumerate(value):
            sound = self.check(items, entry, f"{path}[{index}]") and sound
        for index, entry in _repeated(schema, value):
            sound = self._fail(f"{path}[{index}]", f"Duplicate value: {entry}")
        return sound

    def _ask(self, schema: Schema, value: Any, path: str) -> bool:
        """Whether all rules hold."""
        assert self._rules
        before = len(self.problems)
        for rule in schema.get("x-kubernetes-validations") or ():
            answer = self._rules(rule["rule"], value)
            if answer:
                why = rule.get("message", rule["rule"]) if answer == BROKEN_RULE else f"cannot be judged: {answer}"
                self._fail(f"{path}{rule.get('fieldPath', '')}".lstrip("."), f"Invalid value: {why}")
        return len(self.problems) == before


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _rest(schema: Schema) -> Schema | None:
    """The schema of properties that are not named."""
    rest = schema.get("additionalProperties")
    return rest if isinstance(rest, Mapping) else {"x-kubernetes-preserve-unknown-fields": True} if rest else None


def _unknown(name: str, properties: Mapping[str, Schema]) -> str:
    close = difflib.get_close_matches(name, properties, n=3, cutoff=0.5)
    close = close or [each for each in properties if each.lower() == name.lower()]
    return f"unknown field; did you mean {' or '.join(close)}?" if close else "unknown field; remove it"


def _wrong_type(schema: Schema, value: Any) -> str:
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        wanted, good = "integer or string", type(value) in {int, str}
    elif wanted is None or (value is None and schema.get("nullable")):
        return ""
    elif wanted == "number":
        good = type(value) in {int, float}
    elif wanted == "integer":
        good = type(value) is int
    else:
        good = type_name(value) == wanted
    if good and type(value) is int and not -INT64 <= value < INT64:
        return f"Invalid value: must be of 64 bits, at most {INT64 - 1}"
    return "" if good else f"Invalid value: must be of type {wanted}, not {type_name(value)}"


def _unfit(schema: Schema, value: Any) -> Iterator[str]:
    """Mistakes for which the API server asks no rules about a value."""
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


def _size(schema: Schema, what: str, size: int, unit: str) -> Iterator[str]:
    verb = "be" if what == "Length" else "have"
    if size < (least := schema.get(f"min{what}", 0)):
        yield f"Invalid value: should {verb} at least {least} {unit}"
    if size > (most := schema.get(f"max{what}", size)):
        yield f"Invalid value: should {verb} at most {most} {unit}"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern of Go, whose $ is the very end."""
    return re.compile(re.sub(r"(?<!\\)\$$", r"\\Z", pattern))


def _repeated(schema: Schema, value: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """(index, what) of entries whose key another had before."""
    kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or ()
    if kind not in {"map", "set"}:
        return
    seen: set[str] = set()
    for index, entry in enumerate(value):
        if kind == "map" and not isinstance(entry, dict):
            continue
        mark = json.dumps({key: entry.get(key) for key in keys} if kind == "map" else entry, default=str)
        if mark in seen:
            yield index, mark
        seen.add(mark)
