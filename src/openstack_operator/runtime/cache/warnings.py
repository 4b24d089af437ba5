"""Warning Events about what plans make: what Kubernetes says nowhere else, as why a probe fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...kube import INSTANCE, KIND, fitting, quote
from ...plan import Object
from ..kubernetes.kinds import Kind
from .entries import Cached, Change, Meta, Request
from .store import Store

SELECTOR = "type=Warning"
"""The field selector of Warning Events."""
KINDS = {"Pod", "StatefulSet", "DaemonSet", "Job", "PersistentVolumeClaim"}
"""Kinds whose Events are kept. Of ReplicaSets their Deployment tells in a condition."""
_LONGEST = 1024


class _Involved(msgspec.Struct, rename="camel"):
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Series(msgspec.Struct, rename="camel"):
    last_observed_time: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    metadata: Meta
    involved_object: _Involved
    reason: str = ""
    message: str = ""
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: _Series | None = None


_event = msgspec.json.Decoder(_Event)


def warning(item: bytes, kind: Kind) -> Cached:
    """Return an entry of an Event, labeled in the cache with what it is about, so that it is found by that."""
    event = _event.decode(item)
    meta, about = event.metadata, event.involved_object
    first_seen = event.first_timestamp or event.event_time or meta.creation_timestamp
    last_seen = (event.series and event.series.last_observed_time) or event.last_timestamp or first_seen
    content: Object = {
        "kind": about.kind,
        "name": about.name,
        "uid": about.uid,
        "reason": event.reason,
        "message": quote(event.message, _LONGEST),
        "first": first_seen,
        "last": last_seen,
    }
    labels = {KIND: about.kind.lower(), INSTANCE: fitting(about.name)}
    small = Meta(meta.name, meta.uid, meta.resource_version, meta.namespace, labels=labels)
    return Cached(small, msgspec.json.encode(content))


class Warnings(Store):
    """Warning Events about kinds plans make, in namespaces where there is a resource of ours."""

    def __init__(self, kind: Kind, notify: Callable[[Change], None], inhabited: Callable[[str], bool]) -> None:
        super().__init__(kind, notify)
        self._inhabited = inhabited
        self._kinds = {name.lower() for name in KINDS}

    def _is_wanted(self, item: Cached) -> bool:
        return item.meta.labels[KIND] in self._kinds and self._inhabited(item.meta.namespace)

    def put(self, new: Cached, *, by: Request | None = None) -> None:
        """Take in an Event that may be about something of ours."""
        if self._is_wanted(new):
            super().put(new, by=by)

    def replace(
        self,
        namespace: str | None,
        items: Iterable[Cached],
        version: str = "",
        *,
        before: Mapping[tuple[str, str], int] | None = None,
    ) -> str:
        """Take in those of a whole list."""
        return super().replace(namespace, [item for item in items if self._is_wanted(item)], version, before=before)

    def about(self, namespace: str, kind: str, name: str, uid: str = "") -> Sequence[Object]:
        """Return the Events about that object; without a uid, about any of that name."""
        events: list[dict[str, Any]] = [item.decode() for item in self.owned(namespace, kind, name)]
        return [event for event in events if event["name"] == name and (not uid or event["uid"] in ("", uid))]


def is_repetition(change: Change) -> bool:
    """Return whether an Event only repeats what it said, or was deleted."""
    if change.new is None:
        return True
    if change.old is None:
        return False
    old, new = change.old.decode(), change.new.decode()
    return (old["reason"], old["message"]) == (new["reason"], new["message"])
