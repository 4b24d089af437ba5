"""The state of one resource, and its text for a terminal."""

from __future__ import annotations

from ..kube import child_verdict, conditions
from ..plan import PAUSED, Object, pause_reason

NOT_LOOKED_AT, DELETING = "NotLookedAt", "Deleting"
"""Reasons that no condition has: the operator has not seen the spec yet, and the resource is being deleted."""


def is_ready(live: Object) -> bool:
    """Return True if the operator has looked at the present spec, and all of it is done."""
    return not reason_of(live)


def is_serving(live: Object) -> bool:
    """Return True if the operator has looked at the present spec, and all that served still serves, whatever is left
    to do.
    """
    is_unknown = reason_of(live) in (DELETING, NOT_LOOKED_AT, PAUSED)
    return not is_unknown and conditions(live).get("Ready", {}).get("status") == "True"


def reason_of(live: Object) -> str:
    """Return why a resource of ours is not ready; empty if it is."""
    if live["metadata"].get("deletionTimestamp"):
        return DELETING
    if child_verdict(live).ready:
        return ""
    condition = conditions(live).get("Ready", {})
    if not condition or condition.get("observedGeneration", 0) < live["metadata"].get("generation", 0):
        return NOT_LOOKED_AT if pause_of(live) is None else PAUSED
    return condition.get("reason") or "Unknown"


def pause_of(live: Object) -> str | None:
    """Return why a resource is paused, perhaps an empty text; None for a resource that is not."""
    return pause_reason(live["metadata"].get("annotations"))


def subject(live: Object) -> str:
    """Return `Kind/name`."""
    return f"{live['kind']}/{live['metadata']['name']}"


def printed(text: str) -> str:
    """Return text as one line of a terminal: programs write conditions and logs, and could move its cursor."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
