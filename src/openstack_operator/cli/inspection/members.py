"""Members of clusters of servers: which one leads, and which ones are behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...plan import Object
from ..terminal import Color
from .state import printed, subject

_LEADING = ("primary", "leader")
"""Roles of the members that take the changes."""
_IN_STEP = ("Synced", "Serving", "member")
"""States of the members that have all changes: in Galera, of RabbitMQ, and of OVN's databases."""


def member_lines(resources: Sequence[Object]) -> Iterator[tuple[str, Color | None]]:
    """Yield a line for each cluster of servers: its leading members if they have roles, how many are in step, and what
    the others do.
    """
    for live in resources:
        members: Sequence[Mapping[str, Any]] = (live.get("status") or {}).get("members") or ()
        if len(members) > 1:
            behind = [each for each in members if each.get("message") or each.get("state") not in _IN_STEP]
            yield _line(live, members, behind), Color.YELLOW if behind else None


def _line(live: Object, members: Sequence[Mapping[str, Any]], behind: Sequence[Mapping[str, Any]]) -> str:
    # All members of RabbitMQ are equal: they have no roles.
    has_roles = any("role" in each for each in members)
    leaders = [f"{each['role']} {each['name']}" for each in members if each.get("role") in _LEADING]
    leading = [", ".join(leaders) or "no primary"] if has_roles else []
    in_step = f"{len(members) - len(behind)} of {len(members)} members in step"
    reports = [
        ": ".join(str(each.get(key)) for key in ("name", "state", "message") if each.get(key)) for each in behind
    ]
    return printed(f"{subject(live)}: {'; '.join([*leading, in_step, *reports])}")
