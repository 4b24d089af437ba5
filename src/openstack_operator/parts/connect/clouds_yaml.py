"""clouds.yaml of users, read so that a malicious one takes neither time nor memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

_MOST = 64 << 10
"""Maximum of characters; a file with a cloud and its certificate has some 4,000."""
_DEEPEST = 16
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Reads every value as text: numbers and dates are no part of a login."""


def cloud_auth(text: str) -> Mapping[str, str]:
    """`auth` of the cloud `openstack`, or of the only one. Raises ValueError that says what is wrong, and quotes
    nothing.
    """
    try:
        _check(text)
        clouds = yaml.load(text, _LOADER)["clouds"]  # noqa: S506  (makes text alone)
        chosen = clouds["openstack"] if "openstack" in clouds or len(clouds) != 1 else next(iter(clouds.values()))
        return {str(name): value for name, value in chosen["auth"].items() if isinstance(value, str)}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, UnicodeError):
        raise ValueError("is not understood; it needs one cloud, or `openstack`, with auth") from None


def _check(text: str) -> None:
    """Raises ValueError for a text that costs more to read than its length suggests."""
    if len(text) > _MOST:
        raise ValueError(f"is longer than {_MOST >> 10} KiB; keep the cloud alone that is used")
    depth = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.AliasEvent):
            # A few of them, each of the one before, stand for gigabytes.
            raise ValueError("has an alias (`*name`); write what it stands for")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"is nested deeper than {_DEEPEST} levels")
