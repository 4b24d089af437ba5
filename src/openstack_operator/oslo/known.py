"""Options that the programs of a release know, and the nearest one to a name that none of them has."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LOGIN = "(auth plugin)"
"""Section of a list with the options of every way to log in to Keystone."""
_IN_SECTIONS = ("auth_type", "auth_section")
"""Options of a section that may have any of those."""

KnownOptions = Mapping[str, Sequence[str]]
"""Names of options by section."""


def unknown_options(
    options_by_section: KnownOptions, written: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, str, str]]:
    """Yield section, option and advice for each written option that is not known; the option is empty where the section
    is not known. A section and an option may be written in each way that oslo.config reads.
    """
    names = {_section(name): name for name in options_by_section}
    for section, options in written.items():
        if (name := names.get(_section(section))) is None:
            near = difflib.get_close_matches(_section(section), [each for each in names if each != LOGIN], n=1)
            yield section, "", f"there is no section [{section}]{_proposal(f'[{names[near[0]]}]' if near else '')}"
            continue
        choices = {*options_by_section[name], *_login_options(options_by_section, name)}
        for option in options:
            if option.replace("-", "_") not in choices:
                text = f"there is no option {option!r} in section [{name}]"
                yield section, option, f"{text}{_proposal(_nearest(options_by_section, name, option, choices))}"


def _login_options(options_by_section: KnownOptions, section: str) -> Sequence[str]:
    """Return the options of logins, if a section has one."""
    return options_by_section.get(LOGIN, ()) if set(_IN_SECTIONS) & {*options_by_section[section]} else ()


def _nearest(options_by_section: KnownOptions, section: str, option: str, choices: set[str]) -> str:
    """Return the option that is probably meant: one of another section with this very name, else the most similar."""
    plain = option.replace("-", "_")
    if elsewhere := [
        name for name in options_by_section if name not in {section, LOGIN} and plain in options_by_section[name]
    ]:
        return f"{plain} in section [{elsewhere[0]}]"
    near = difflib.get_close_matches(plain, sorted(choices), n=1)
    return near[0] if near else ""


def _proposal(nearest: str) -> str:
    return f"; did you mean {nearest}?" if nearest else "; remove it, or correct its name"


def _section(name: str) -> str:
    return name if name == "DEFAULT" else name.lower()
