"""Templates in the definition of a cloud: shorter than the kinds they become. The API server compiles each rule of it
when the first cloud is written, and keeps all of it in memory several times.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from .defaults import split_default, with_default
from .model import HANDED_ON, TEMPLATE, WAS_RENAMED

Schema = dict[str, Any]

_INNER = ("items", "additionalProperties")
_RULES = "x-kubernetes-validations"
_SHARED = 3
"""Places from which on something counts as a setting that services share."""
_NUMBER = "^[0-9]"
"""Begin of the pattern of a quantity, which users get wrong most: the API server refuses it at any depth."""
_CODE = re.compile("`[^`]*`")
_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)\.(?=\s|$)")


def abridged(schema: Schema) -> Schema:
    """Return the schema with its templates cut short.

    A template keeps its bounds and its rules, and those of its own values (an image, a number of pods). Rules of groups
    of fields, and of fields in them, that more than three places share (exposure, where the database is) are left to
    the kind the template becomes: a condition of the cloud reports what that refuses, with the path of the field, and
    so does `openstack-operator validate` before, except for what may not change. So are, in such groups, the patterns
    of names that more than three fields share. Each field keeps the first sentence of its description, and its default.
    """
    return _walk(schema, Counter(_texts(schema)))


def has_templates(schema: Schema) -> bool:
    """Return True if the schema's own fields, or theirs, contain templates."""
    if schema.get(HANDED_ON) == TEMPLATE:
        return True
    return any(has_templates(field) for field in schema.get("properties", {}).values())


def unmarked(schema: Schema, marks: Set[str]) -> Schema:
    """Return the schema without some marks."""
    bare = {name: value for name, value in schema.items() if name not in marks}
    return mapped(bare, lambda inner: unmarked(inner, marks))


def mapped(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return the schema with `change` applied to each schema in it."""
    changed = dict(schema)
    if "properties" in changed:
        changed["properties"] = {name: change(field) for name, field in changed["properties"].items()}
    for name in _INNER:
        if isinstance(changed.get(name), dict):
            changed[name] = change(changed[name])
    return changed


def _walk(schema: Schema, counts: Mapping[str, int]) -> Schema:
    if schema.get(HANDED_ON) == TEMPLATE:
        return _cut(schema, counts, 0)
    bare = {name: value for name, value in schema.items() if name != HANDED_ON}
    return mapped(bare, lambda inner: _walk(inner, counts))


def _cut(schema: Schema, counts: Mapping[str, int], depth: int) -> Schema:
    short = {name: value for name, value in schema.items() if name != HANDED_ON}
    if "description" in short:
        words, default = split_default(short["description"])
        short["description"] = with_default(first_sentence(words), default)
    if any("matches(" in rule["rule"] for rule in short.get(_RULES, ())):
        # The rule says the same in words, here or in the kind.
        short.pop("pattern", None)
    if short.get("minLength") == 1 and not re.search(short.get("pattern", ""), ""):
        # What has no character does not match either.
        del short["minLength"]
    if _RULES in short and (depth > 1 or (depth == 1 and "properties" in short)):
        # Without its rule an earlier name would be taken for a field.
        rules = [rule for rule in short.pop(_RULES) if counts[_text(rule)] <= _SHARED or WAS_RENAMED in rule["message"]]
        short |= {_RULES: rules} if rules else {}
    if depth > 1 and counts[short.get("pattern", "")] > _SHARED and not short["pattern"].startswith(_NUMBER):
        del short["pattern"]
    if short.get("x-kubernetes-int-or-string"):
        short.pop("anyOf", None)
    return mapped(short, lambda inner: _cut(inner, counts, depth + 1))


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text. A full stop in code or in parentheses ends none, and neither does that of `e.g.`;
    a text without a full stop is one sentence.
    """
    # Of the same length, so that places are the same.
    plain = _CODE.sub(lambda code: "x" * len(code[0]), text)
    start = 0
    for end in _END.finditer(plain):
        before = plain[start : end.start()]
        if before.count("(") <= before.count(")"):
            yield text[start : end.end()].strip()
            start = end.end()
    if rest := text[start:].strip():
        yield rest


def first_sentence(text: str) -> str:
    """Return the first sentence of a text; empty if it has none."""
    return next(sentences(text), "")


def _texts(node: Any) -> Iterator[str]:
    """Yield every pattern and rule, as often as it occurs."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "pattern" and isinstance(value, str):
                yield value
            elif name == _RULES:
                yield from (_text(rule) for rule in value)
            else:
                yield from _texts(value)
    elif isinstance(node, list):
        for value in node:
            yield from _texts(value)


def _text(rule: Mapping[str, str]) -> str:
    return json.dumps(rule, sort_keys=True)
