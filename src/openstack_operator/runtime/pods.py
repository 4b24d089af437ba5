"""Pods as plans see them: of those whose owner looks at them, and of each only what it may look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from ..kube import MANAGED_BY, WATCHED
from ..plan import Object
from .kinds import Kind
from .store import Cached, Meta

SELECTOR = f"app.kubernetes.io/managed-by={MANAGED_BY},{WATCHED}=true"

_META = ("name", "namespace", "uid", "labels", "annotations", "deletionTimestamp", "ownerReferences")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER = ("name", "ready", "restartCount", "state")


def trimmed(item: bytes, kind: Kind) -> Cached:
    """An entry without the nine tenths of a pod no plan looks at, nor its version: same bytes mean nothing happened."""
    live: Object = msgspec.json.decode(item)
    status: Object = live.get("status") or {}
    seen = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": _only(live["metadata"], _META),
        "spec": _only(live.get("spec") or {}, ("nodeName",)),
        "status": {
            **_only(status, ("phase", "podIP")),
            "conditions": [_only(entry, _CONDITION) for entry in _list(status, "conditions")],
            "containerStatuses": [_only(entry, _CONTAINER) for entry in _list(status, "containerStatuses")],
        },
    }
    return Cached(msgspec.convert(live["metadata"], Meta), msgspec.json.encode(seen))


def _only(value: Mapping[str, Any], names: Iterable[str]) -> Object:
    return {name: value[name] for name in names if name in value}


def _list(value: Mapping[str, Any], name: str) -> list[Object]:
    return cast("list[Object]", value.get(name) or [])
