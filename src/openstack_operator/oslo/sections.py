"""oslo.config options as data: sections merged layer by layer, then written once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..api import Sections
from .values import escape_text


class Verbatim(str):
    """A value that a program reads as it is written: a password or a key that a user chose. In other values, dollar
    signs and quotes have a meaning to oslo.config.
    """

    __slots__ = ()


def merge(*layers: Mapping[str, Mapping[str, Any]]) -> Sections:
    """Return the sections with later layers winning, option by option."""
    merged: Sections = {}
    for layer in layers:
        for section, options in layer.items():
            merged.setdefault(section, {}).update(options)
    return merged


KnownOptions = Mapping[str, Mapping[str, str]]
"""Descriptions of options as JSON, by section and name."""


def overlap(
    layer: Mapping[str, Mapping[str, Any]],
    other_layer: Mapping[str, Mapping[str, Any]],
    catalog: KnownOptions | None = None,
) -> list[str]:
    """Return the options that both layers set, as `SECTION.option` in the spelling of the first, sorted. An old name
    that the catalog has is the option it stands for: a program ignores it beside the new name.
    """
    if not layer or not other_layer:
        return []
    new_names = dict(_new_names(catalog or {}))
    other_options = {_read_as(s, o, new_names) for s, options in other_layer.items() for o in options}
    return sorted(
        f"{s}.{o}" for s, options in layer.items() for o in options if _read_as(s, o, new_names) in other_options
    )


def _new_names(catalog: KnownOptions) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    """Yield each old name of an option, and its new one."""
    for section, options in catalog.items():
        for option, details in options.items():
            # Few are old, and all are many.
            if _NOW in details and (new := json.loads(details).get("now")):
                new_section, new_option = new
                yield _read_as(section, option, {}), _read_as(new_section, new_option, {})


_NOW = '"now"'


def _read_as(section: str, option: str, new_names: Mapping[tuple[str, str], tuple[str, str]]) -> tuple[str, str]:
    """Return the option for which oslo.config takes a spelling: case matters in no section but DEFAULT, a dash is an
    underscore.
    """
    name = section if section == "DEFAULT" else section.lower(), option.replace("-", "_")
    return new_names.get(name, name)


def render(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file for oslo.config: [DEFAULT] first, then alphabetical, so that equal options give equal bytes."""
    lines: list[str] = []
    for section in sorted(sections, key=lambda name: (name != "DEFAULT", name)):
        lines.append(f"[{section}]")
        for option, value in sorted(sections[section].items()):
            values: list[Any] = value if isinstance(value, list) else [value]
            # A line break would start a new option; oslo.config reads an indented line as a continuation. Python takes
            # a carriage return in a file for a line break, too.
            lines += [_LINE_BREAK.sub("\n  ", f"{option} = {value_text(entry)}") for entry in values]
        lines.append("")
    return "\n".join(lines)


_LINE_BREAK = re.compile("\r\n?|\n")


def policy(rules: Mapping[str, str]) -> dict[str, str]:
    """Return the file `policy.yaml`, by its name, with these rules of oslo.policy, which warns of a file in JSON."""
    return {"policy.yaml": "".join(f"{json.dumps(name)}: {json.dumps(rule)}\n" for name, rule in rules.items())}


def value_text(value: Any) -> str:
    """Return a value, or an entry of one that is a list, as the text of a file."""
    if isinstance(value, Verbatim):
        return escape_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
