"""Templates in the definition of a cloud: shorter than the kinds they become. The API server compiles each rule of it
when the first cloud is written, and keeps all of it in memory several times."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from .defaults import split_default, with_default
from .model import HANDED_ON, IS_NOW, TEMPLATE, WAS_RENAMED

Schema = dict[str, Any]

_INNER = ("items", "additionalProperties")
_RULES = "x-kubernetes-validations"
_SHARED = 3
"""Places from which on something counts as a setting that services share."""
_NUMBER = "^[0-9]"
"""Begin of the pattern of a quantity, which users get wrong most: the API server refuses it at any depth."""
_SENTENCE = re.compile(r"(.*?[\w`)\]'\"])[.;:](?:\s|$)")


def abridged(schema: Schema) -> Schema:
    """The schema with its templates cut short.

    A template keeps its bounds and its rules, and those of its own values (an image, a number of pods). Rules of groups
    of fields, and of fields in them, that more than three places share (exposure, where the database is) are left to
    the kind the template becomes: a condition of the cloud reports what that refuses, with the path of the field, and
    so does `openstack-operator validate` before, except for what may not change. So are, in such groups, the patterns
    of names that more than three fields share. A template's own fields keep the
    first sentence of their descriptions; of a text that more than three of them share, only the first one keeps it, and
    further below none. Each default is stated here as well, even without any other text.
    """
    return _walk(schema, _Sayings(Counter(_said(schema))))


@dataclass(frozen=True)
class _Sayings:
    """Descriptions and rules of a schema, and the sentences that came before on the way through it."""

    counts: Mapping[str, int]
    """Number of places of each description, each pattern and each rule."""
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
    """Return True if the schema's own fields, or theirs, contain templates."""
    if schema.get(HANDED_ON) == TEMPLATE:
        return True
    return any(has_templates(field) for field in schema.get("properties", {}).values())


def unmarked(schema: Schema, marks: Set[str]) -> Schema:
    """The schema without some marks."""
    bare = {name: value for name, value in schema.items() if name not in marks}
    return mapped(bare, lambda inner: unmarked(inner, marks))


def mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """The schema with each schema in it changed."""
    changed = dict(schema)
    if "properties" in changed:
        changed["properties"] = {name: change(field) for name, field in changed["properties"].items()}
    for name in _INNER:
        if isinstance(changed.get(name), dict):
            changed[name] = change(changed[name])
    return changed


def _walk(schema: Schema, sayings: _Sayings) -> Schema:
    if schema.get(HANDED_ON) == TEMPLATE:
        return _cut(schema, sayings, 0)
    bare = {name: value for name, value in schema.items() if name != HANDED_ON}
    return mapped(bare, lambda inner: _walk(inner, sayings))


def _cut(schema: Schema, sayings: _Sayings, depth: int) -> Schema:
    short = {name: value for name, value in schema.items() if name != HANDED_ON}
    if text := _shortened(short.pop("description", ""), whole=depth < 2, sayings=sayings):
        short["description"] = text
    if any("matches(" in rule["rule"] for rule in short.get(_RULES, ())):
        # The rule says the same in words, here or in the kind.
        short.pop("pattern", None)
    if short.get("minLength") == 1 and not re.search(short.get("pattern", ""), ""):
        # What has no character does not match either.
        del short["minLength"]
    if _RULES in short and (depth > 1 or (depth == 1 and "properties" in short)):
        # Without its rule an earlier name would be taken for a field.
        rules = [
            rule for rule in short.pop(_RULES) if not sayings.is_shared(_text(rule)) or WAS_RENAMED in rule["message"]
        ]
        short |= {_RULES: rules} if rules else {}
    if depth > 1 and sayings.is_shared(short.get("pattern", "")) and not short["pattern"].startswith(_NUMBER):
        del short["pattern"]
    if short.get("x-kubernetes-int-or-string"):
        short.pop("anyOf", None)
    return mapped(short, lambda inner: _cut(inner, sayings, depth + 1))


def _shortened(text: str, *, whole: bool, sayings: _Sayings) -> str:
    """Shorten the description of a field to a sentence and its default, or the default alone."""
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
    """Every description, pattern and rule, as often as it occurs."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name in ("description", "pattern") and isinstance(value, str):
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
