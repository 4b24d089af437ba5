"""Options of oslo.config that the Python packages of an image register, as JSON: names by section.

It runs in the image, with the interpreter and the packages there.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import entry_points

PLUGINS = "(auth plugin)"
"""Key of the options that a section with a login may have, whichever way it logs in."""


def main() -> None:
    """Print the options, with deprecated names, which still work. A package whose list fails is named on stderr."""
    # Some packages print while they are imported.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sections: dict[str, set[str]] = {}
    for entry in entry_points(group="oslo.config.opts"):
        try:
            groups = list(entry.load()())
        except Exception as error:
            print(f"{entry.name}: {error!r}", file=sys.stderr)
            continue
        for group, options in groups:
            name = getattr(group, "name", group) or "DEFAULT"
            for option in options:
                sections.setdefault(name, set()).update({option.dest, option.name.replace("-", "_")})
                for old in option.deprecated_opts:
                    sections.setdefault(old.group or name, set()).add((old.name or option.name).replace("-", "_"))
    json.dump({name: sorted(names) for name, names in {**sections, PLUGINS: plugin_options()}.items()}, output)


def plugin_options() -> set[str]:
    """Return the options of all ways to log in to Keystone, and of the session; none in an image without them."""
    try:
        from keystoneauth1 import loading  # noqa: PLC0415
    except ImportError:
        return set()
    options = [*loading.get_session_conf_options(), *loading.get_auth_common_conf_options()]
    options += loading.get_adapter_conf_options()
    for name in sorted(loading.get_available_plugin_names()):
        try:
            options += loading.get_auth_plugin_conf_options(name)
        except Exception as error:
            print(f"{name}: {error!r}", file=sys.stderr)
    names = {option.dest for option in options}
    return names | {(old.name or option.dest).replace("-", "_") for option in options for old in option.deprecated_opts}


if __name__ == "__main__":
    main()
