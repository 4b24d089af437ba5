"""Fields that a user set by hand in what a plan makes: they are named, and removed unless an annotation keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ...kube import owner_path
from ...kube.foreign import ALLOWED, FOREIGN_FIELDS, KEEP_FIELDS, ForeignField, foreign_fields, may_stay
from ...plan import READY, Object, SpecError, Verdict
from ...plan.steps import WORKLOADS
from ..cache.entries import Cached, Request, entry
from ..cache.world import World
from ..kubernetes.errors import Conflict, Missing
from ..kubernetes.kinds import Kind
from .apply_cache import ApplyCache

REMOVED = "Removed"
"""Reason of the condition, and of an Event."""
_SHOWN_FOR = timedelta(minutes=10)
"""Time for which the condition names fields that are gone."""
_OF_USERS = {"PKI", "OVNChassis"}
"""Kinds whose other fields a user sets there: no template has them."""


@dataclass
class ForeignFields:
    """The fields of others in the objects of one resource, during one pass."""

    world: World
    apply_cache: ApplyCache
    request: Request
    uid: str
    now: datetime
    """By the clock that only grows (`clock.steady`)."""
    removed: list[str] = field(default_factory=list[str])
    """Descriptions of fields that were removed in this pass."""
    _allowed: list[str] = field(default_factory=list[str])

    async def remove(self, kind: Kind, child: Cached, stamp: str) -> Cached:
        """Return the object without fields that others set and that no annotation keeps. Raises Transient."""
        is_own = kind in self.world.catalog.resources
        if not child.meta.editors or kind.role in _OF_USERS or not (is_own or kind.kind in WORKLOADS):
            return child
        version = child.meta.resource_version
        if self.apply_cache.examined_versions.get(child.meta.uid) == version:
            return child
        live = await self.world.client.get(kind, child.meta.namespace, child.meta.name)
        if live is None or live["metadata"]["uid"] != child.meta.uid:
            return child
        fields = foreign_fields(live)
        for each in (each for each in fields if may_stay(live, each)):
            self._allowed.append(f"{_subject(live, each)} stays, because the annotation {KEEP_FIELDS} lists it")
        if not fields:
            self.apply_cache.examined_versions[child.meta.uid] = version
        fields = [each for each in fields if not may_stay(live, each)]
        if not fields or self.apply_cache.contention.pause(child.meta.uid, stamp, self.now):
            return child
        written = await self._without(kind, live, fields)
        if written is None:
            return child
        self.apply_cache.contention.note(child.meta.uid, stamp, self.now)
        self.removed += [_removal(live, each) for each in fields]
        new = entry(written, kind)
        self.world.stores[kind].put(new, by=self.request)
        return new

    async def _without(self, kind: Kind, live: Object, fields: Sequence[ForeignField]) -> Object | None:
        """Remove fields of a live object, and return it as it is then; None if that changed nothing."""
        metadata = live["metadata"]
        # From the end, so that the place of an entry of a list does not change before it is removed.
        from_end = sorted((each.pointer for each in fields), key=_position, reverse=True)
        operations: list[Object] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            *({"op": "remove", "path": pointer} for pointer in from_end),
        ]
        try:
            written = await self.world.client.patch_json(kind, metadata["namespace"], metadata["name"], operations)
        except (Conflict, Missing):
            # It was changed meanwhile; the next pass looks again.
            return None
        except SpecError:
            # It cannot do without the field.
            written = live
        if written["metadata"]["resourceVersion"] == metadata["resourceVersion"]:
            # Or the API server fills in the same value, which is the default of the definition.
            self.apply_cache.examined_versions[metadata["uid"]] = metadata["resourceVersion"]
            return None
        return written

    def conditions(self) -> dict[str, Verdict]:
        """Return the condition that names fields which are kept, or were removed a short while ago; none without."""
        if self.removed:
            self.apply_cache.removed_fields[self.uid] = self.now, tuple(self.removed)
        since, removed = self.apply_cache.removed_fields.get(self.uid, (self.now, ()))
        if self.now >= since + _SHOWN_FOR:
            self.apply_cache.removed_fields.pop(self.uid, None)
            removed = ()
        texts = [*removed, *self._allowed]
        return (
            {FOREIGN_FIELDS: Verdict(READY.state, "; ".join(texts), REMOVED if removed else ALLOWED)} if texts else {}
        )

    @property
    def recheck_after(self) -> float | None:
        """Seconds until a field that was removed is named no longer."""
        if self.uid not in self.apply_cache.removed_fields:
            return None
        return max(1.0, (self.apply_cache.removed_fields[self.uid][0] + _SHOWN_FOR - self.now).total_seconds())


def _position(pointer: str) -> list[tuple[bool, int, str]]:
    """Return a key by which later entries of a list come after earlier ones."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in pointer.split("/")]


def _subject(live: Object, each: ForeignField) -> str:
    return f"{live['kind']}/{live['metadata']['name']} {each.path}, which {each.manager} set,"


def _removal(live: Object, each: ForeignField) -> str:
    field = owner_path(live, each.path)
    instead = f"to set it, use {field} of its resource" if field else "to try it, pause its resource"
    return f"{_subject(live, each)} was removed; {instead}, or list it in the annotation {KEEP_FIELDS}"
