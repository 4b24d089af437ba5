"""Manifests as `kubectl apply` brings them to a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from ..plan import Object
from .client import KUBECTL

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def is_applied_by_server(live: Object) -> bool:
    """Return True if `kubectl apply --server-side` made an object what it is: the server then knows what a manifest
    no longer has.
    """
    managers = live["metadata"].get("managedFields") or ()
    is_applied = any(each.get("manager") == KUBECTL and each.get("operation") == "Apply" for each in managers)
    return is_applied and _LAST_APPLIED not in (live["metadata"].get("annotations") or {})


def apply_manifest(live: Object, manifest: Object) -> Object:
    """Return a live object after `kubectl apply` of a manifest: what the manifest has is set; what the last one applied
    had, and this one has not, goes; all else stays. Lists are replaced as a whole, as for every custom resource.
    """
    last = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED, "")
    try:
        before: Any = json.loads(last) if last else {}
    except ValueError:
        before = {}
    body = {name: value for name, value in manifest.items() if name != "status"}
    return cast("Object", _applied(live, before, body))


def _applied(live: Any, last: Any, manifest: Any) -> Any:
    if not isinstance(manifest, Mapping):
        return manifest
    fields = cast("Mapping[str, Any]", manifest)
    old = cast("Mapping[str, Any]", last) if isinstance(last, Mapping) else {}
    result = dict(cast("Mapping[str, Any]", live)) if isinstance(live, Mapping) else {}
    for name in old:
        if name not in fields:
            result.pop(name, None)
    for name, value in fields.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _applied(result.get(name), old.get(name), value)
    return result
