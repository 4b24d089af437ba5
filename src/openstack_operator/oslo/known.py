"""Options that the programs of a release know, and remarks on those that a user writes."""

from __future__ import annotations

import difflib
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from . import values
from .policies import RULES
from .sections import KnownOptions, value_text

LOGIN = "(auth plugin)"
"""Section of a list with the options of every way to log in to Keystone."""
_IN_SECTIONS = ("auth_type", "auth_section")
"""Options of a section that may have any of those."""
_NO_SECTIONS = frozenset({LOGIN, RULES})

_LONGEST = 200
"""Characters of a reason, of which some take a paragraph."""
_LONGEST_NAME, _MOST_NAMES = 64, 5
"""Characters of a wrong name that a text shows, and such names of a value: no option has so many."""


class Finding(NamedTuple):
    """A remark on an option that is written, or on a section if the option is empty."""

    kind: Literal["unknown", "unresolved", "removed", "deprecated", "invalid"]
    section: str
    option: str
    text: str
    """Advice; for an invalid value the values that the option takes; empty for an option that a release has no more."""
    is_secret: bool = False
    """True if the value is a secret, or may have one in it."""


class NearestNames:
    """A search for the names that users probably meant. After some searches it finds no more: each compares a name with
    all that are known, and a spec may have thousands of wrong ones.
    """

    def __init__(self, searches: int = 20) -> None:
        self._left = searches

    def of(self, name: str, choices: Iterable[str]) -> str:
        """Return the most similar name; empty if none is similar."""
        if self._left <= 0:
            return ""
        self._left -= 1
        return next(iter(difflib.get_close_matches(name, choices, n=1)), "")


def examine(
    catalog: KnownOptions,
    written: Mapping[str, Mapping[str, Any]],
    earlier: KnownOptions | None = None,
    nearest: NearestNames | None = None,
) -> Iterator[Finding]:
    """Yield what is to be said of the written options; `earlier` are those of the releases before. A section and an
    option may be written in each way that oslo.config reads.
    """
    nearest = nearest or NearestNames()
    names = {_section(name): name for name in catalog}
    earlier_names = {_section(name): name for name in earlier or {}}
    for section, options in written.items():
        earlier_options = (earlier or {}).get(earlier_names.get(_section(section), ""), {})
        removed = [option for option in options if option.replace("-", "_") in earlier_options]
        if (name := names.get(_section(section))) is None:
            if removed:
                yield from (Finding("removed", section, option, "") for option in removed)
                continue
            near = nearest.of(_section(section), [each for each in names if each not in _NO_SECTIONS])
            text = f"there is no section [{_short_name(section)}]{_proposal(f'[{names[near]}]' if near else '')}"
            yield Finding("unknown", section, "", text)
            continue
        choices = {**_login_options(catalog, name), **catalog[name]}
        for option, value in options.items():
            if (details := choices.get(option.replace("-", "_"))) is not None:
                yield from _examine_option(catalog, section, option, value, _parse(details))
            elif option in removed:
                yield Finding("removed", section, option, "")
            else:
                text = f"there is no option {_short_name(option)!r} in section [{name}]"
                text += _proposal(_meant(catalog, name, option, choices, nearest))
                yield Finding("unknown", section, option, text)


def _examine_option(
    catalog: KnownOptions, section: str, option: str, value: Any, rules: values.Rules
) -> Iterator[Finding]:
    """Yield what is to be said of an option of the catalog."""
    if place := rules.get("now"):
        new_section, new_option = place
        where = "" if _section(new_section) == _section(section) else f" in section [{new_section}]"
        text = f"is deprecated and will be removed; use {new_option}{where}"
        yield Finding("deprecated", section, option, text)
        rules = _parse(catalog.get(new_section, {}).get(new_option, ""))
    if "removal" in rules:
        since = f" (deprecated since {rules['since']})" if "since" in rules else ""
        reason = f": {textwrap.shorten(rules['removal'], _LONGEST, placeholder=' …')}" if rules["removal"] else ""
        yield Finding("deprecated", section, option, f"will be removed in a later release{since}{reason}")
    entries: list[Any] = value if isinstance(value, list) else [value]
    texts = [value_text(entry) for entry in entries]
    # Before an @ may stand a login, in whatever form.
    is_secret = bool(rules.get("secret")) or any("@" in text for text in texts)
    names = list(dict.fromkeys(name for text in texts for name in values.option_names(text)))[:_MOST_NAMES]
    for name in (each for each in names if not _has_option(catalog, section, each)):
        reference = "a name behind a dollar sign" if is_secret else f"${_short_name(name)}"
        text = f"refers to the missing option {reference}; write $$ for a dollar sign"
        yield Finding("unresolved", section, option, text)
    if expected := _fault(rules, entries):
        yield Finding("invalid", section, option, expected, is_secret=is_secret)


def _short_name(name: str) -> str:
    """Return the name of a section or an option as a message shows it."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 2]} …"


def _has_option(catalog: KnownOptions, section: str, name: str) -> bool:
    """Return True if oslo.config finds an option of that name, seen from a section: there, or in DEFAULT."""
    place, _, option = name.rpartition(".")
    sections = [place] if place else [section, "DEFAULT"]
    return any(option in catalog[each] for each in catalog if _section(each) in map(_section, sections))


def _fault(rules: values.Rules, entries: list[Any]) -> str:
    """Return what an option takes if these values are none of it; empty if they are, or depend on other options."""
    if "type" not in rules:
        return ""
    texts = [values.parse_text(value_text(entry)) for entry in entries]
    if all(text is None or values.reads(rules, text) for text in texts) and (rules.get("multi") or len(texts) <= 1):
        return ""
    once = "" if rules.get("multi") or len(texts) <= 1 else ", in one line"
    return f"{values.describe(rules)}{once}"


@lru_cache(maxsize=4096)
def _parse(details: str) -> values.Rules:
    """Return the rules of an option from its line in a list; callers must not change them."""
    return json.loads(details) if details else {}


def _login_options(catalog: KnownOptions, section: str) -> Mapping[str, str]:
    """Return the options of logins, if a section has one."""
    return catalog.get(LOGIN, {}) if set(_IN_SECTIONS) & {*catalog[section]} else {}


def _meant(catalog: KnownOptions, section: str, option: str, choices: Iterable[str], nearest: NearestNames) -> str:
    """Return the option that is probably meant: one of another section with this very name, else the most similar."""
    plain = option.replace("-", "_")
    if elsewhere := [name for name in catalog if name not in {section, *_NO_SECTIONS} and plain in catalog[name]]:
        # Before a section that has only the old name of an option.
        best = min(elsewhere, key=lambda name: "now" in _parse(catalog[name][plain]))
        return f"{plain} in section [{best}]"
    return nearest.of(plain, sorted(choices))


def _proposal(nearest: str) -> str:
    return f"; did you mean {nearest}?" if nearest else "; remove it, or correct its name"


def _section(name: str) -> str:
    return name if name == "DEFAULT" else name.lower()
