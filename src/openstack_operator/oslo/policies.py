"""Rules of oslo.policy, read as its own parser reads them (oslo_policy._parser), which takes a rule that it does not
understand for one that refuses everybody.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

RULES = "(policy rules)"
"""Section of the list of a release with the names of a service's rules."""

_WORD = re.compile(r"\S+")
# The substitutions of a check: %(project_id)s.
_SUBSTITUTIONS = re.compile(r"%\([^()%\s]+\)s")
_KEYWORDS = ("and", "or", "not")


class RuleError(ValueError):
    """A rule that oslo.policy does not understand."""


def tokens(rule: str) -> Iterator[str]:
    """Yield parentheses, keywords in lower case, and checks. Raises RuleError for text in quotes."""
    for word in _WORD.findall(rule):
        closing = word.lstrip("(")
        yield from "(" * (len(word) - len(closing))
        clean = closing.rstrip(")")
        if clean.lower() in _KEYWORDS:
            yield clean.lower()
        elif clean:
            if len(closing) >= 2 and (closing[0], closing[-1]) in {('"', '"'), ("'", "'")}:
                raise RuleError(f"{closing} is not a check; write kind:value, such as role:member")
            yield clean
        yield from ")" * (len(closing) - len(clean))


def checks(rule: str) -> list[str]:
    """Return the checks of a rule, such as `role:member`; an empty rule, which lets everybody in, has none. Raises
    RuleError.
    """
    if not rule:
        return []
    rule_checks, depth, expects_check = list[str](), 0, True
    for word in tokens(rule):
        if expects_check:
            if word in ("and", "or", ")"):
                raise RuleError(f"has {word!r} where a check is expected, such as role:member")
            depth += word == "("
            if word not in ("not", "("):
                rule_checks.append(_check(word))
                expects_check = False
        elif word in ("and", "or"):
            expects_check = True
        elif word == ")" and depth:
            depth -= 1
        else:
            raise RuleError(f"has {word!r} where `and` or `or` is expected")
    if expects_check:
        raise RuleError("ends where a check is expected, such as role:member")
    if depth:
        raise RuleError("has an unclosed parenthesis")
    return rule_checks


def _check(word: str) -> str:
    if word in ("!", "@"):
        return word
    kind, colon, value = word.partition(":")
    if not colon:
        raise RuleError(f"{word!r} is not a check; write kind:value, such as role:{word} or rule:{word}")
    if "%" in _SUBSTITUTIONS.sub("", value):
        raise RuleError(f"{word!r} has a `%` without a substitution; write %(project_id)s")
    return f"{kind}:{value}"


def cycle(rules: Mapping[str, Collection[str]]) -> list[str]:
    """Return the names of rules that lead back to the first of them, of checks by rule; empty if there are none."""
    try:
        TopologicalSorter({name: referenced(each) for name, each in rules.items()}).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def referenced(rule_checks: Collection[str]) -> list[str]:
    """Return the names of the rules that checks refer to."""
    return [check.partition(":")[2] for check in rule_checks if check.startswith("rule:")]
