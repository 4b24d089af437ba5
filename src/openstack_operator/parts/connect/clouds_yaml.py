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
    """Return `auth` of the cloud `openstack`, or of the only one. Raises ValueError that says what is wrong, and quotes
    nothing.
    """
    try:
        _check(text)
        clouds = yaml.load(text, _LOADER)["clouds"]  # noqa: S506  (makes text alone)
        chosen = clouds["openstack"] if "openstack" in clouds or len(clouds) != 1 else next(iter(clouds.values()))
        return {str(name): value for name, value in chosen["auth"].items() if isinstance(value, str)}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, UnicodeError):
        raise ValueError("is not valid; it needs one cloud, or a cloud `openstack`, with auth") from None


def credential_identity(entries: Mapping[str, str]) -> dict[str, Any]:
    """Return `identity` of a request for a token, by the application credential in these entries: by its id, or by its
    name and its user's. Raises ValueError with the keys that are missing.
    """
    by_name = _ID not in entries and _NAME in entries
    keys = (_NAME if by_name else _ID, _SECRET, *([_USER] if by_name else []))
    if missing := [key for key in keys if not entries.get(key)]:
        raise ValueError(" and ".join(missing))
    credential: dict[str, Any] = {key.removeprefix(_PREFIX): entries[key] for key in keys}
    if by_name:
        domain = {"name": entries.get("user_domain_name") or "Default"}
        credential["user"] = {"name": credential.pop(_USER), "domain": domain}
    return {"methods": ["application_credential"], "application_credential": credential}


_PREFIX, _USER = "application_credential_", "username"
_ID, _NAME, _SECRET = (f"{_PREFIX}{name}" for name in ("id", "name", "secret"))


def _check(text: str) -> None:
    """Raise ValueError for a text that costs more to read than its length suggests."""
    if len(text) > _MOST:
        raise ValueError(f"is longer than {_MOST >> 10} KiB; keep only the cloud in use")
    depth = 0
    for event in yaml.parse(text, _LOADER):
        if isinstance(event, yaml.AliasEvent):
            # A few of them, each of the one before, stand for gigabytes.
            raise ValueError("has an alias (`*name`); write its value instead")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"is nested deeper than {_DEEPEST} levels")
