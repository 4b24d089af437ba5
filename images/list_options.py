"""Options of oslo.config that the Python packages of an image register, as JSON: a description by section and name; and
the names of their rules of oslo.policy.

It runs in the image, with the interpreter and the packages there.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import Any

PLUGINS = "(auth plugin)"
"""Key of the options that a section with a login may have, whichever way it logs in."""

RULES = "(policy rules)"
"""Key of the names of the rules of oslo.policy."""

Description = dict[str, Any]
"""Description of an option: the `type` of its values with the limits of that type, and `multi` for one that may be
written several times; `secret` for one with a secret; `removal`, the reason why it goes, with `since`; `mutable` for
one that a running program reads again. Or, of an old name, `now`: section and name in use. No `type` stands for any
value.
"""
_LIMITS = ("min", "max", "bounds", "quotes", "ignore_case", "max_length", "min_length")
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_VERSIONS = {"_check_ipv4": 4, "_check_ipv6": 6}


def main() -> None:
    """Print the options, with old names, which still work. A package whose list fails is named on stderr."""
    # Some packages print while they are imported.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sections: dict[str, dict[str, list[Description]]] = {}
    for group, options in _groups():
        for section, name, description in _described(group, options):
            descriptions = sections.setdefault(section, {}).setdefault(name, [])
            if description not in descriptions:
                descriptions.append(description)
    sections[PLUGINS] = {name: [description] for name, description in plugin_options().items()}
    whole = {section: {name: _only(each) for name, each in names.items()} for section, names in sections.items()}
    whole |= {RULES: {name: {} for name in policy_rules()}}
    json.dump(whole, output)


def policy_rules() -> Iterator[str]:
    """Yield the names of the rules by which the packages judge requests, each once or several times."""
    for entry in entry_points(group="oslo.policy.policies"):
        try:
            yield from (rule.name for rule in entry.load()())
        except Exception as error:
            print(f"{entry.name}: {error!r}", file=sys.stderr)


def _groups() -> Iterator[tuple[str, Iterable[Any]]]:
    """Yield the options of each package with their section."""
    for entry in entry_points(group="oslo.config.opts"):
        try:
            groups = list(entry.load()())
        except Exception as error:
            print(f"{entry.name}: {error!r}", file=sys.stderr)
            continue
        for group, options in groups:
            yield getattr(group, "name", group) or "DEFAULT", options


def _described(section: str, options: Iterable[Any]) -> Iterator[tuple[str, str, Description]]:
    """Yield section, name and description of options, and of their old names."""
    for option in options:
        description = describe(option)
        yield section, option.dest, description
        if (plain := option.name.replace("-", "_")) != option.dest:
            yield section, plain, description
        for old in option.deprecated_opts:
            place = old.group or section, (old.name or option.name).replace("-", "_")
            if place != (section, option.dest):
                yield *place, {"now": [section, option.dest]}


def _only(descriptions: list[Description]) -> Description:
    """Return the description of an option that several packages register: a name in use before an old one, and what
    all of them say. Nothing is known of the values if they differ in the type.
    """
    in_use = [each for each in descriptions if "now" not in each] or descriptions[:1]
    common = {key: value for key, value in in_use[0].items() if all(each.get(key) == value for each in in_use)}
    kinds = {(each.get("type"), each.get("multi")) for each in in_use}
    return common if len(kinds) == 1 else {}


def describe(option: Any) -> Description:
    """Return the description of an option of oslo.config."""
    description = describe_type(option.type)
    description |= {name: True for name in ("multi", "mutable", "secret") if getattr(option, name)}
    if option.deprecated_for_removal:
        description["removal"] = " ".join((option.deprecated_reason or "").split())
        if option.deprecated_since:
            description["since"] = str(option.deprecated_since)
    return description


def describe_type(type_: Any) -> Description:
    """Return the type of values and its limits; empty for one whose rules are not those of oslo.config's own types."""
    rules = next((each for each in type(type_).__mro__ if "__call__" in vars(each)), object)
    if rules.__module__ != "oslo_config.types":
        return {}
    # Number has the rules of Integer, Float and Port.
    standard = next(each for each in type(type_).__mro__ if each.__module__ == rules.__module__)
    description: Description = {"type": standard.__name__}
    for limit in _LIMITS:
        if (value := getattr(type_, limit, None)) not in (None, False, 0) or (limit in {"min", "max"} and value == 0):
            description[limit] = value
    if schemes := getattr(type_, "schemes", None):
        description["schemes"] = sorted(schemes)
    if choices := getattr(type_, "choices", None):
        description["choices"] = list(choices)
    if (regex := getattr(type_, "regex", None)) is not None:
        flags = "".join(name for name, flag in _FLAGS.items() if regex.flags & flag)
        # One that has flags begins with them.
        is_complete = not flags or regex.pattern.startswith("(?")
        description["regex"] = regex.pattern if is_complete else f"(?{flags}){regex.pattern}"
    for part in ("item_type", "value_type"):
        if (inner := getattr(type_, part, None)) is not None:
            description[part] = describe_type(inner)
    if (separator := getattr(type_, "key_value_separator", ":")) != ":":
        description["key_value_separator"] = separator
    checker = getattr(getattr(type_, "ip_address", type_), "version_checker", None)
    if version := _VERSIONS.get(getattr(checker, "__name__", "")):
        description["version"] = version
    return description


def plugin_options() -> dict[str, Description]:
    """Return the options of all ways to log in to Keystone, and of the session; none in an image without them."""
    try:
        from keystoneauth1 import loading  # noqa: PLC0415
    except ImportError:
        return {}
    options = [*loading.get_session_conf_options(), *loading.get_auth_common_conf_options()]
    options += loading.get_adapter_conf_options()
    for name in sorted(loading.get_available_plugin_names()):
        try:
            options += loading.get_auth_plugin_conf_options(name)
        except Exception as error:
            print(f"{name}: {error!r}", file=sys.stderr)
    # Plug-ins differ in what they deprecate, and mean the same by a name.
    names: dict[str, Description] = {}
    for option in options:
        names[option.dest] = {}
        for old in option.deprecated_opts:
            names.setdefault((old.name or option.dest).replace("-", "_"), {})
    return names


if __name__ == "__main__":
    main()
