"""Groups of options of a MariaDB server, in which an option has many names."""

from __future__ import annotations

import re
from typing import Any

from ...api import Sections
from ...plan import OptionsError
from .config import layered

_SERVER_GROUPS = {"mysqld", "server", "mariadb", "mariadbd", "galera", "client-server"}


def merge_groups(defaults: Sections, user: Sections, server: dict[str, Any]) -> Sections:
    """Return the groups of my.cnf, with these options fixed in each of the server's; an indented line is an option of
    its own there. Raises SpecError where the user sets a fixed option.
    """
    # Dashes and underscores mean the same in option names.
    by_group = {group: {o.replace("-", "_"): value for o, value in options.items()} for group, options in user.items()}
    # `mariadb-11.8` is a group of that version's server.
    groups = {group for group in by_group if group.lower() in _SERVER_GROUPS or group[-1:].isdigit()}
    for group in sorted(groups):
        for option in sorted(by_group[group].keys() - server.keys()):
            if (fixed := next((each for each in server if _is_read_as(option, each)), None)) is not None:
                text = f"it is an alias of {fixed}, which the operator sets; remove it from config"
                raise OptionsError(f"spec.config.{group}.{option}", text)
    return layered(defaults, by_group, dict.fromkeys(groups | {"mysqld"}, server), multiline=False)


_PREFIX = re.compile(r"^(loose_|skip_|disable_|enable_|maximum_)+")
"""Words that MariaDB takes before the name of any option."""
_COMPLETE = {"ssl"}
"""Names of options with which names of others begin."""


def _is_read_as(option: str, fixed_option: str) -> bool:
    """Return True if MariaDB may take a name for that of a fixed option: by a word before it, or as an abbreviation."""
    name, fixed_name = _PREFIX.sub("", option, count=1), _PREFIX.sub("", fixed_option, count=1)
    return name == fixed_name or (name not in _COMPLETE and fixed_name.startswith(name))
