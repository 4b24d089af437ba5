"""The state of one resource, and its text for a terminal."""

from __future__ import annotations

import re

from ...kube import child_verdict, conditions
from ...kube.foreign import ALLOWED, FOREIGN_FIELDS
from ...plan import CONFIG_VALID, FIELDS_IGNORED, FIELDS_INCONSISTENT, PAUSED, Object, pause_reason
from ...plan.node_labels import CONDITION as NODE_LABELS_IGNORED

NOT_LOOKED_AT, DELETING = "NotLookedAt", "Deleting"
"""Reasons that no condition has: the operator has not seen the spec yet, and the resource is being deleted."""


CHANGING = "Ready, change not done"
"""State of a resource of which all that served still serves, while a change goes on, waits or failed."""
_COUNT = re.compile(r"\d+ of \d+ parts done\b")
"""Beginning of the message of Progressing."""
_REMARKS = (CONFIG_VALID, FIELDS_IGNORED, FIELDS_INCONSISTENT, FOREIGN_FIELDS, NODE_LABELS_IGNORED)
"""Conditions about what a user set without effect. `Ready` does not depend on them."""


def remarks(live: Object) -> list[str]:
    """Return what is to be said of a resource though it may be ready: each condition with its message, but for what
    `Ready` says already.
    """
    by_type = conditions(live)
    ready_message = by_type.get("Ready", {}).get("message", "")
    texts: list[str] = []
    for type_ in _REMARKS:
        condition = by_type.get(type_, {})
        message = condition.get("message", "")
        if message and message not in ready_message and condition.get("reason") != ALLOWED:
            texts.append(f"{type_}: {message}")
    return texts


def progress_of(live: Object) -> str:
    """Return how many parts of a resource are done, `2 of 7 parts done`, as the operator counts them; empty if it did
    not count them since the spec changed.
    """
    condition = conditions(live).get("Progressing", {})
    count = _COUNT.match(condition.get("message", ""))
    is_current = condition.get("observedGeneration", 0) >= live["metadata"].get("generation", 0)
    return count[0] if count and is_current else ""


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
