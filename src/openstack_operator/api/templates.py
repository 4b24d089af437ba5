"""What the definition of a cloud says of its templates: less than the kinds they become, so that it stays small enough
for `kubectl apply`, which keeps a copy of it in an annotation of at most 262,144 bytes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .defaults import split_default, with_default
from .model import HANDED_ON, IN_KIND, IS_NOW, TEMPLATE, WAS_RENAMED

Schema = dict[str, Any]

_INNER = ("items", "additionalProperties")
_RULES = "x-kubernetes-validations"
_BOUNDS = ("maxItems", "maxLength", "maxProperties")
_SHARED = 3
"""Places from which on something counts as a setting that services share."""
_SENTENCE = re.compile(r"(.*?[\w`)\]'\"])[.;:](?:\s|$)")


def abridged(schema: Schema) -> Schema:
    """The schema with its templates cut short.

    A template and its own fields keep their rules and the first sentence of what is said of them; what more than three
    of these say is said by the first one. Below, what more than three places share (how pods are placed, who may
    connect) is said and checked by the kind the template becomes: what that refuses is told by a condition of the
    cloud, with the path of the field. So are the bounds of free texts, lists and maps. Each default is said here as
    well, also where nothing else is.
    """
    return _walk(schema, _Sayings(Counter(_said(schema))))


@dataclass(frozen=True)
class _Sayings:
    """What is said in a schema, and what of that was said already on the way through it."""

    counts: Mapping[str, int]
    """How often each description and each rule stands there."""
    earlier: set[str] = field(default_factory=set)
    """Sentences that many share, which came before."""

    def is_shared(self, text: str) -> bool:
        return self.counts[text] > _SHARED

    def sentence(self, text: str, words: str) -> str:
        """The first sentence of the words of a description; empty where many have it, and one had it before."""
        sentence = first_sentence(words)
        if self.is_shared(text):
            if sentence in self.earlier:
                return ""
            self.earlier.add(sentence)
        return sentence


def has_templates(schema: Schema) -> bool:
    """Whether there are templates among the schema's own fields or theirs."""
    if schema.get(HANDED_ON) == TEMPLATE:
        return True
    return any(has_templates(field) for field in schema.get("properties", {}).values())


def unmarked(schema: Schema, mark: str) -> Schema:
    """The schema without a mark."""
    found = {name: value for name, value in schema.items() if name != mark}
    return mapped(found, lambda inner: unmarked(inner, mark))


def mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """The schema with each schema in it changed."""
    found = dict(schema)
    if "properties" in found:
        found["properties"] = {name: change(field) for name, field in found["properties"].items()}
    for name in _INNER:
        if isinstance(found.get(name), dict):
            found[name] = change(found[name])
    return found


def _walk(schema: Schema, sayings: _Sayings) -> Schema:
    if schema.get(HANDED_ON) == TEMPLATE:
        return _cut(schema, sayings, 0)
    bare = {name: value for name, value in schema.items() if name not in (HANDED_ON, IN_KIND)}
    return mapped(bare, lambda inner: _walk(inner, sayings))


def _cut(schema: Schema, sayings: _Sayings, depth: int) -> Schema:
    found = {name: value for name, value in schema.items() if name not in (HANDED_ON, IN_KIND)}
    if text := _shortened(found.pop("description", ""), whole=depth < 2, sayings=sayings):
        found["description"] = text
    if any("matches(" in rule["rule"] for rule in found.get(_RULES, ())):
        # The rule says the same in words, here or in the kind.
        found.pop("pattern", None)
    if found.get("minLength") == 1 and not re.search(found.get("pattern", ""), ""):
        # What has no character does not match either.
        del found["minLength"]
    if depth >= 2 and _RULES in found:
        # Without its rule an earlier name would be taken for a field.
        rules = [
            rule for rule in found.pop(_RULES) if not sayings.is_shared(_text(rule)) or WAS_RENAMED in rule["message"]
        ]
        found |= {_RULES: rules} if rules else {}
    if IN_KIND in schema and _RULES not in found:
        # What a rule costs is reckoned by bounds.
        found = {name: value for name, value in found.items() if name not in _BOUNDS}
    if found.get("x-kubernetes-int-or-string"):
        found.pop("anyOf", None)
    return mapped(found, lambda inner: _cut(inner, sayings, depth + 1))


def _shortened(text: str, *, whole: bool, sayings: _Sayings) -> str:
    """What is said of a field: a sentence and its default, or the default alone."""
    if text.startswith(IS_NOW):
        return text
    words, default = split_default(text)
    said = whole or not sayings.is_shared(text)
    return with_default(sayings.sentence(text, words) if said else "", default)


def first_sentence(text: str) -> str:
    """A text up to where its first sentence, or the first part of it, ends."""
    match = _SENTENCE.match(text)
    return f"{match[1]}." if match else text


def _said(node: Any) -> Iterator[str]:
    """Every description and every rule, as often as it stands there."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "description" and isinstance(value, str):
                yield value
            elif name == _RULES:
                yield from (_text(rule) for rule in value)
            else:
                yield from _said(value)
    elif isinstance(node, list):
        for value in node:
            yield from _said(value)


def _text(rule: Mapping[str, str]) -> str:
    return json.dumps(rule, sort_keys=True)
