"""Options of configuration files that are secrets: by the lists of the releases, and by their names."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...kube.masking import is_secret_option

_HARMLESS = frozenset({"Boolean", "Float", "Integer", "List", "Port"})
"""Types of options that no program uses for a secret without marking it. Drivers have texts that they do not mark, such
as `pure_api_token` of Cinder.
"""
_ANY_BACKEND = "backend_defaults"
"""Section with the options that sections of Cinder's backends may have."""
_LISTS = {"hypervisorcluster": "nova"}
"""Service in whose lists the options of a kind are, if it has another name."""


class SecretOptions:
    """Judge of the options of one kind; `lists` has the options by service, section and name."""

    def __init__(self, lists: Mapping[str, Mapping[str, Mapping[str, str]]], kind: str) -> None:
        self._sections = lists.get(_LISTS.get(kind.lower(), kind.lower()), {})

    def is_secret(self, section: str, name: str) -> bool:
        """Return True if an option is a secret. One that no list has, or that is a text, is judged by its name, too."""
        sections = (section, _ANY_BACKEND)
        details = next((text for each in sections if (text := self._sections.get(each, {}).get(name))), "{}")
        rules = json.loads(details)
        if rules.get("secret"):
            return True
        is_harmless = rules.get("type") in _HARMLESS or bool(rules.get("choices"))
        return not is_harmless and is_secret_option(name)
