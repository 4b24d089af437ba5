"""Objects that a user deleted and their owner made again at once: their parts stay and are not restarted."""

from __future__ import annotations

from collections.abc import Iterable


class Recreations:
    """Objects that a user deleted and their owner made again, by the uid of that owner."""

    def __init__(self) -> None:
        self._existing: dict[str, set[str]] = {}

    def note(self, uid: str, desired: Iterable[str], children: Iterable[str], changes: Iterable[str]) -> list[str]:
        """Return the objects that a pass made and that had existed before, without those that the operator deleted
        itself. The plan had `desired`; the pass began with `children` and did `changes` (`Kind/name created`).
        """
        at_start, recreated = set(children), list[str]()
        existing = self._existing.setdefault(uid, set()) | at_start
        for change in changes:
            name, _, verb = change.rpartition(" ")
            if verb == "deleted":
                existing.discard(name)
            elif verb == "created":
                if name in existing - at_start:
                    recreated.append(name)
                existing.add(name)
        self._existing[uid] = existing & set(desired)
        return recreated

    def give_up(self, uid: str, name: str) -> None:
        """Record that the operator itself deleted this object of that owner, as Kind/name."""
        self._existing.get(uid, set[str]()).discard(name)

    def forget(self, uid: str) -> None:
        """Forget an owner that is gone."""
        self._existing.pop(uid, None)
