"""YAML as kubectl understands it, with a bound on depth and size, and the line of every value."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml import events

DEEPEST = 100
"""Levels of maps and lists within each other; no manifest has twenty."""
MOST = 250_000
"""Values of a document once its aliases stand where they are used."""
Path = tuple[str | int, ...]


class YamlProblem(Exception):
    """A place at which the text is no YAML that kubectl takes."""

    def __init__(self, message: str, line: int, document: int = 0) -> None:
        super().__init__(message)
        self.message, self.line, self.document = message, line, document


@dataclass
class Lines:
    """Line by path; what an alias stands for is where the alias is."""

    by_path: dict[Path, int] = field(default_factory=dict[Path, int])

    def nearest(self, path: Path) -> int:
        """Return the line of a value, or of what is around it; 0 where nothing is known."""
        for length in range(len(path), -1, -1):
            if line := self.by_path.get(path[:length]):
                return line
        return 0


@dataclass
class _Anchored:
    value: Any
    size: int


class Composer:
    """Iterates over (value, lines) of each document. Raises YamlProblem where the text is no YAML that kubectl takes;
    `problems` are those one can read on after.
    """

    def __init__(self, text: str) -> None:
        self.done: list[tuple[int, Any, Lines]] = []
        """(number, value, lines) of the documents read so far."""
        self.problems: list[YamlProblem] = []
        self._text = text
        self._number = 0
        self._size = 0
        self._anchors: dict[str, _Anchored | None] = {}
        self._lines = Lines()
        self._stream: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[tuple[Any, Lines]]:
        try:
            # The parser in C is 10 times as fast, where PyYAML was built with it.
            self._stream = yaml.parse(self._text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            for event in self._stream:
                if isinstance(event, events.DocumentStartEvent):
                    self._number += 1
                    value = self._document()
                    if value is not None:
                        self.done.append((self._number, value, self._lines))
                    yield value, self._lines
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
            line = mark.line + 1 if mark else self._line_of(error)
            # PyYAML counts documents and quotes the line, which is printed anyway; what it says is enough.
            raise YamlProblem(f"is not YAML: {_words(error)}", line, max(self._number, 1)) from None

    def _line_of(self, error: yaml.YAMLError) -> int:
        position = getattr(error, "position", None)
        return self._text[:position].count("\n") + 1 if isinstance(position, int) else 0

    def _document(self) -> Any:
        self._size, self._anchors, self._lines = 0, {}, Lines()
        return self._value(next(self._stream), ())

    def _value(self, event: Any, path: Path) -> Any:
        line = event.start_mark.line + 1
        self._lines.by_path.setdefault(path, line)
        if len(path) > DEEPEST:
            raise YamlProblem(f"is nested deeper than {DEEPEST} levels", line, self._number)
        if isinstance(event, events.AliasEvent):
            return self._alias(event, line)
        before = self._size
        self._grow(1, line)
        anchor: str | None = event.anchor
        if anchor:
            self._anchors[anchor] = None
        if isinstance(event, events.ScalarEvent):
            value = self._scalar(event, line)
        elif isinstance(event, events.SequenceStartEvent):
            value = []
            while not isinstance(inner := next(self._stream), events.SequenceEndEvent):
                value.append(self._value(inner, (*path, len(value))))
        else:
            value = self._map(path)
        if anchor:
            self._anchors[anchor] = _Anchored(value, self._size - before)
        return value

    def _grow(self, size: int, line: int) -> None:
        self._size += size
        if self._size > MOST:
            raise YamlProblem(f"has more than {MOST:,} values, its aliases written out", line, self._number)

    def _alias(self, event: Any, line: int) -> Any:
        if event.anchor not in self._anchors:
            raise YamlProblem(f"is not YAML: there is no anchor &{event.anchor}", line, self._number)
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise YamlProblem(f"is not YAML: *{event.anchor} contains itself", line, self._number)
        self._grow(anchored.size, line)
        return anchored.value

    def _map(self, path: Path) -> dict[str, Any]:
        value: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := next(self._stream), events.MappingEndEvent):
            line = event.start_mark.line + 1
            is_merge = isinstance(event, events.ScalarEvent) and event.value == "<<" and event.implicit[0]
            key = "<<" if is_merge else self._key(event, path, line)
            # A field is where its name is.
            self._lines.by_path[*path, key] = line
            inner = self._value(next(self._stream), (*path, key))
            if is_merge:
                merged = {**self._merged(inner, line), **merged}
            elif key in value:
                self.problems.append(YamlProblem(f"{key!r} occurs twice in one map", line, self._number))
            else:
                value[key] = inner
        return {**merged, **value} if merged else value

    def _key(self, event: Any, path: Path, line: int) -> str:
        key = self._value(event, (*path, "<key>"))
        self._lines.by_path.pop((*path, "<key>"), None)
        if isinstance(key, bool):
            return str(key).lower()
        if isinstance(key, (str, int, float)):
            return str(key)
        raise YamlProblem("a key of a map must be text, not a list, a map or null", line, self._number)

    def _merged(self, value: Any, line: int) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for each in reversed(value) if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                raise YamlProblem("<< must have a map or a list of maps", line, self._number)
            merged |= each
        return merged

    def _scalar(self, event: Any, line: int) -> Any:
        text, tag = event.value, event.tag
        if tag in {None, "!"}:
            value = _plain(text) if event.implicit[0] and tag is None else text
        elif tag in _TAGS:
            value = _tagged(text, tag)
        else:
            raise YamlProblem(f"the tag {tag} is not supported; remove it", line, self._number)
        if not isinstance(value, float):
            return value
        if not math.isfinite(value):
            self.problems.append(YamlProblem("is not a number in JSON", line, self._number))
            return 0
        # 3.0 becomes 3 as it is turned into JSON.
        return int(value) if value.is_integer() and abs(value) < _INTEGRAL else value


_YAML = "tag:yaml.org,2002:"
_TAGS = frozenset(f"{_YAML}{name}" for name in ("str", "int", "float", "bool", "null", "binary", "timestamp"))
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE, _FALSE = (
    frozenset(spelling for word in words for spelling in (word, word.capitalize(), word.upper()))
    for words in (("true", "yes", "on"), ("false", "no", "off"))
)
_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9_]+)([eE][-+]?[0-9]+)?\Z")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_INTEGRAL = 1e21
"""From here on Go writes numbers with an exponent."""
_LONG = 20
"""Digits from which on no number fits 64 bits, and JSON's becomes a float."""


def _plain(text: str) -> Any:
    """Return the value of unquoted text: YAML 1.1 as Go's parser reads it, without dates and numbers of base 60."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    return _number(text) if text[0] in "+-.0123456789" else text


def _number(text: str) -> float | str:
    """Return the number a text is, or the text."""
    if _INT.match(text):
        return _integer(text)
    if _INFINITE.match(text):
        return math.inf
    if _FLOAT.match(text) and any(letter.isdigit() for letter in text):
        return float(text.replace("_", ""))
    return text


def _integer(text: str) -> int | float | str:
    digits = text.replace("_", "").lstrip("+-")
    if not digits:
        return text
    sign = -1 if text.startswith("-") else 1
    for prefix, base in (("0b", 2), ("0x", 16), ("0o", 8), ("0", 8)):
        if digits.startswith(prefix) and len(digits) > len(prefix):
            return sign * int(digits[len(prefix) :], base) if len(digits) < 64 else text
    return sign * int(digits) if len(digits) <= _LONG else sign * float(digits)


def _tagged(text: str, tag: str) -> Any:
    name = tag.removeprefix(_YAML)
    if name in {"str", "timestamp"}:
        return text
    if name == "null":
        return None
    if name == "binary":
        try:
            return base64.b64decode(text, validate=False).decode(errors="replace")
        except (binascii.Error, ValueError):
            return text
    value = _plain(text)
    return float(value) if name == "float" and isinstance(value, int) else value


def _words(error: yaml.YAMLError) -> str:
    """Return the message of the parser, without the place."""
    if isinstance(error, yaml.MarkedYAMLError):
        return ", ".join(part for part in (error.context, error.problem) if part)
    return str(getattr(error, "reason", error)).splitlines()[0]
