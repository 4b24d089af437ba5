"""Memory of objects between passes; lost with the objects and with the process."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from ..cache.entries import Cached
from ..clock import steady
from ..rollout.gate import Rollouts
from .contention import Contention
from .recreations import Recreations

_TRUSTED = timedelta(minutes=30)
"""Time after which the same content is applied again: the definition of its kind may have been upgraded since, and
nothing shows that. It is longer than what `Contention` counts as one conflict.
"""
_NEVER = datetime.min.replace(tzinfo=UTC)


class ApplyCache:
    """Facts about objects, by uid, that cannot be read off the objects themselves."""

    def __init__(self, clock: Callable[[], datetime] = steady) -> None:
        self._clock = clock
        self._applied: dict[str, tuple[str, str, datetime]] = {}
        """Content that the API server stores in another form than it was written, and when it was: `1000m` comes back
        as `1`, and a field that a definition does not have not at all."""
        self.rollouts = Rollouts()
        self.lacks_pods_since: dict[str, datetime] = {}
        """Time at which a StatefulSet was first seen to lack pods, or its controller was last nudged."""
        self.failed_since: dict[str, datetime] = {}
        """Time since which a Job is known to have failed."""
        self.logs: dict[str, str] = {}
        """End of the log of failed jobs."""
        self.announced_rollouts: set[str] = set()
        """Workloads of which an Event has said that their pods are being replaced."""
        self.endangered_volume_claims: set[str] = set()
        """Volume claims that are being deleted, of which an Event has warned."""
        self.recreations = Recreations()
        self.examined_versions: dict[str, str] = {}
        """Version by uid of an object in which others set no field of the spec alone."""
        self.removed_fields: dict[str, tuple[datetime, tuple[str, ...]]] = {}
        """Fields that users had set by hand, by the uid of the resource, with the time at which they were removed."""
        self.contention = Contention()
        self.began: datetime | None = None
        """The time, by the steady clock, at which this process first looked at anything as the one that acts."""

    def is_noop(self, entry: Cached, stamp: str) -> bool:
        """Return whether applying this content to this version of the object was found to change nothing."""
        *content, at = self._applied.get(entry.meta.uid, ("", "", _NEVER))
        return content == [stamp, _generation(entry)] and self._clock() - at < _TRUSTED

    def note_noop(self, entry: Cached, stamp: str) -> None:
        """Note that applying this content made the object what it is now."""
        self._applied[entry.meta.uid] = stamp, _generation(entry), self._clock()

    def forget_all(self) -> None:
        """Drop what is known of all objects, since they may have another content of the same generation. Roll-outs
        stay, which each change of a workload keeps up to date.
        """
        of_objects = self._applied, self.lacks_pods_since, self.failed_since, self.logs, self.examined_versions
        for each in (*of_objects, self.removed_fields, self.endangered_volume_claims):
            each.clear()
        self.recreations = Recreations()
        self.contention = Contention()

    def forget(self, uid: str) -> None:
        """Drop what is known of an object that is gone."""
        for each in (self._applied, self.lacks_pods_since, self.failed_since, self.logs, self.examined_versions):
            each.pop(uid, None)
        self.rollouts.forget(uid)
        self.announced_rollouts.discard(uid)
        self.endangered_volume_claims.discard(uid)
        self.recreations.forget(uid)
        self.removed_fields.pop(uid, None)
        self.contention.forget(uid)


def _generation(entry: Cached) -> str:
    """Return what changes with the content; of kinds without a generation the version, which status changes, too."""
    return str(entry.meta.generation or entry.meta.resource_version)
