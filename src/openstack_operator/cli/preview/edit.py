"""Manifests as `kubectl apply` brings them to a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from ...plan import Object
from ...runtime.kubernetes.client import FIELD_MANAGER
from .client import KUBECTL

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


_ANNOTATION = "f:kubectl.kubernetes.io/last-applied-configuration"
_LAST_APPLIED_MANAGER = "kubectl-last-applied"
"""Name under which kubectl keeps that annotation up to date when it applies on the server."""


class LastApply(NamedTuple):
    """The tool that applied an object last, with the way in which it did."""

    is_by_server: bool
    """True if the API server merged the manifest, as with `kubectl apply --server-side`."""
    manager: str
    """Name under which the API server knows the tool; empty if nothing ever applied the object."""


def apply_note(apply: LastApply, names: Sequence[str]) -> str:
    """Return which apply a preview of these objects assumes, and what another one does otherwise."""
    objects = ", ".join(names)
    if apply.is_by_server:
        tool = "" if apply.manager == KUBECTL else f" by {apply.manager}"
        return (
            f"{objects}: applied with --server-side{tool}, as the last time; `kubectl apply` without it would keep the"
            " fields that a file no longer has"
        )
    if apply.manager:
        return f"{objects}: applied without --server-side, as the last time; fields missing in this file are removed"
    return f"{objects}: no file was applied before; fields missing in the file stay"


def conflict_note(conflict: str, apply: LastApply | None) -> str:
    """Return how the tool that applies an object takes over fields that another manager has set."""
    tool = apply.manager if apply else KUBECTL
    how = "with --force-conflicts, kubectl" if tool == KUBECTL else f"if its apply is forced, {tool}"
    return f"{conflict}; {how} takes these fields over, as shown here"


def last_apply(live: Object) -> LastApply:
    """Return how an object was applied last. Only the server knows what a manifest applied there no longer has; for
    `kubectl apply`, an annotation of the object says it.
    """
    entries = [each for each in live["metadata"].get("managedFields") or () if not each.get("subresource")]
    on_server = [each for each in entries if each.get("operation") == "Apply" and _owns_content(each)]
    annotated = [each for each in entries if each.get("operation") == "Update" and _owns_annotation(each)]
    by_server, by_client = (max(each, key=_time, default=None) for each in (on_server, annotated))
    if by_server and (by_client is None or _time(by_server) > _time(by_client)):
        return LastApply(is_by_server=True, manager=by_server["manager"])
    is_applied = _LAST_APPLIED in (live["metadata"].get("annotations") or {})
    return LastApply(is_by_server=False, manager=by_client["manager"] if by_client else KUBECTL if is_applied else "")


def _time(entry: Object) -> str:
    return str(entry.get("time") or "")


def _owns_content(entry: Object) -> bool:
    """Return True for a tool of a user that applied more than labels and annotations."""
    manager = str(entry.get("manager") or "")
    is_ours = manager == FIELD_MANAGER or manager.startswith(f"{FIELD_MANAGER}-")
    return (
        not is_ours and manager != _LAST_APPLIED_MANAGER and bool((entry.get("fieldsV1") or {}).keys() - {"f:metadata"})
    )


def _owns_annotation(entry: Object) -> bool:
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return _ANNOTATION in (metadata.get("f:annotations") or {})


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
