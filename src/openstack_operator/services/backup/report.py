"""Lists of rows and data that do not fit, as the status of a restore has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9][-_.A-Za-z0-9]{0,63}")
"""Names that a command may have."""
_MAX_NAMES = 5


def listed(value: Any, command: Callable[[Sequence[str]], str], field: str = "images") -> dict[str, Any] | None:
    """Return a list that a program of a restore told, its names in a field of the status, with the command about what
    it names; None for an empty one.
    """
    if not (result := names(value, field)):
        return None
    return {**result, "command": command(result[field]) if result[field] else None}


def names(value: Any, field: str) -> dict[str, Any] | None:
    """Return a list as `listed` does, without a command."""
    result: Mapping[str, Any] = value if isinstance(value, dict) else {}
    if not (count := number(result.get("count"))):
        return None
    plain_names = [name for name in result.get("images") or () if isinstance(name, str) and _NAME.fullmatch(name)]
    return {"count": count, field: plain_names[:_MAX_NAMES]}


def number(value: Any) -> int:
    """Return a number that a program told; 0 for something else."""
    return value if isinstance(value, int) else 0
