"""Fields that wait for a condition: whether a kind may have it."""

from __future__ import annotations

import difflib

from .conditions_by_kind import CONDITION_TYPES

_OF_ALL_KINDS = (
    "ConfigValid FieldsIgnored FieldsInconsistent ImageProfile Paused PreflightReady Ready Reconciling SingleCopy "
    "Stalled UpgradeReady VersionReady"
)
"""Conditions of every kind, with those that exist only in an upgrade."""


def condition_fault(kind: str, condition: str) -> str:
    """Return why a resource of a kind never has a condition, with the one that is probably meant; empty if it may."""
    types = {*CONDITION_TYPES.get(kind, ()), *_OF_ALL_KINDS.split()}
    if condition in types:
        return ""
    nearest = difflib.get_close_matches(condition, sorted(types), n=1)
    meant = f"did you mean {nearest[0]}?" if nearest else "write Ready, or one of docs/reference/conditions.md"
    return f"{kind} has no condition {condition!r}; {meant}"
