"""Memory of objects between passes; lost with the objects and with the process."""

from __future__ import annotations

from datetime import datetime

from .contention import Contention
from .recreation import Recreations
from .rollout_gate import Rollouts
from .store import Cached


class Memo:
    """What cannot be read off the objects themselves, by uid."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}
        """What the API server stores in another form than it was written: `1000m` comes back as `1`."""
        self.rollouts = Rollouts()
        self.short: dict[str, datetime] = {}
        """When a StatefulSet was first seen to lack pods, or last asked for."""
        self.logs: dict[str, str] = {}
        """End of the log of failed jobs."""
        self.announced_rollouts: set[str] = set()
        """Workloads of which an Event has said that their pods are being replaced."""
        self.endangered: set[str] = set()
        """Volume claims that are being deleted, of which an Event has told."""
        self.recreations = Recreations()
        self.contention = Contention()
        self.began: datetime | None = None
        """The time at which this process first looked at anything as the one that acts."""

    def settled(self, held: Cached, stamp: str) -> bool:
        """Whether applying this content to this version of the object was found to change nothing."""
        return self._known.get(held.meta.uid) == (stamp, _generation(held))

    def learn(self, held: Cached, stamp: str) -> None:
        """Applying this content made the object what it is now."""
        self._known[held.meta.uid] = stamp, _generation(held)

    def forget(self, uid: str) -> None:
        """Drops what is known of an object that is gone."""
        for each in (self._known, self.short, self.logs):
            each.pop(uid, None)
        self.rollouts.forget(uid)
        self.announced_rollouts.discard(uid)
        self.endangered.discard(uid)
        self.recreations.forget(uid)
        self.contention.forget(uid)


def _generation(held: Cached) -> str:
    """What changes with the content; kinds without a generation have their version, which status changes too."""
    return str(held.meta.generation or held.meta.resource_version)
