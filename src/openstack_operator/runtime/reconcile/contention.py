"""Objects that another program keeps changing: the operator corrects them, but not without an end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ..kubernetes.kinds import Kind

CONTENDED = "ChangedByOthers"
"""Reason of an Event about such an object."""
FREE_CORRECTIONS = 5
"""Corrections that are made at once; a user who edits by hand makes fewer within the window."""
LONGEST_PAUSE = 60.0
"""Seconds. What another program changes stays so for this long at most."""
_WINDOW = timedelta(minutes=10)
"""An object that was left alone for this long starts over."""


@dataclass
class _Writes:
    """The operator's writes to one object."""

    stamp: str
    """Digest of the content."""
    last: datetime
    corrections: int = 0
    """Times it wrote the same content again, since another program had changed it."""


class Contention:
    """A count of corrections by the uid of the object, which spreads them where they do not help.

    A correction is a write of what this process itself wrote last. A plan that changes is none, so that no roll-out
    waits here. Two programs that write without a pause would use a core of the API server.
    """

    def __init__(self) -> None:
        self._writes: dict[str, _Writes] = {}

    def pause(self, uid: str, stamp: str, now: datetime) -> float:
        """Return the seconds before this content may be written again; 0 where it may be written now."""
        writes = self._writes.get(uid)
        if writes is None or writes.stamp != stamp or writes.corrections < FREE_CORRECTIONS:
            return 0.0
        doubled = min(writes.corrections - FREE_CORRECTIONS, 16)
        due = writes.last + timedelta(seconds=min(2.0**doubled, LONGEST_PAUSE))
        return max(0.0, (due - now).total_seconds())

    def note(self, uid: str, stamp: str, now: datetime) -> bool:
        """Count a write of this content. Return whether another program keeps changing the object."""
        writes = self._writes.get(uid)
        if writes is None or writes.stamp != stamp or now - writes.last > _WINDOW:
            self._writes[uid] = _Writes(stamp, now)
            return False
        writes.last, writes.corrections = now, writes.corrections + 1
        return writes.corrections >= FREE_CORRECTIONS

    def forget(self, uid: str) -> None:
        """Drop what is known of an object that is gone."""
        self._writes.pop(uid, None)


def advice(kind: Kind, name: str, namespace: str) -> str:
    """Return what an Event says of an object that another program keeps changing."""
    return (
        f"another program keeps changing {kind.kind}/{name}; the operator corrects it after pauses of up"
        f" to a minute. To find the program: kubectl get {kind.full_name} {name} -n {namespace} -o yaml"
        " --show-managed-fields"
    )
