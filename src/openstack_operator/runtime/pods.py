"""Pods as plans and verdicts see them: of each only what somebody looks at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from ..kube import INSTANCE, KIND, MANAGED_BY, WATCHED, conditions, last_log
from ..plan import Object
from .kinds import Kind
from .store import Cached, Meta, OwnerReference

SELECTOR = f"app.kubernetes.io/managed-by={MANAGED_BY}"

_TIMES = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_META = ("name", "namespace", "uid", "labels", "annotations", *_TIMES)
_META_OF_OTHERS = tuple(name for name in _META if name != "annotations")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER = ("name", "ready", "restartCount", "state")
_ENDED = ("reason", "exitCode", "message", "startedAt", "finishedAt")
_TOLD = {"PodScheduled", "Ready", "ContainersReady", "PodReadyToStartContainers"}
"""Conditions that say why a pod does not start."""
_LABELS = {KIND, INSTANCE}


def trimmed(item: bytes, kind: Kind) -> Cached:
    """An entry without the nine tenths of a pod nobody looks at, nor its version: same bytes mean nothing happened.

    Of pods no plan looks at only what may keep them from starting is left; of those that run, hardly anything.
    """
    live: Object = msgspec.json.decode(item)
    watched = (live["metadata"].get("labels") or {}).get(WATCHED) == "true"
    fine = _is_fine(live)
    owners = [owner for owner in live["metadata"].get("ownerReferences") or () if owner.get("controller")]
    meta = _only(live["metadata"], _META if watched else _META_OF_OTHERS)
    if owners:
        meta["ownerReferences"] = [
            _only(owner, ("apiVersion", "kind", "name", "uid", "controller")) for owner in owners
        ]
    if not watched:
        meta["labels"] = {name: value for name, value in meta.get("labels", {}).items() if name in _LABELS}
    spec: Object = live.get("spec") or {}
    volumes = [] if fine else [volume for volume in _list(spec, "volumes") if "persistentVolumeClaim" in volume]
    seen = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": meta,
        "spec": {**_only(spec, ("nodeName",)), **({"volumes": volumes} if volumes else {})},
        "status": _status(live.get("status") or {}, watched=watched, fine=fine),
    }
    # Labels and annotations as they are: whoever labels a pod compares them.
    known = msgspec.convert({**live["metadata"], **meta}, Meta)
    return Cached(known if watched else _slim(known), msgspec.json.encode(seen))


def workload_of(meta: Meta) -> tuple[str, str] | None:
    """Kind and name of the workload a pod is made by: of a Deployment, through its ReplicaSet."""
    owner: OwnerReference | None = meta.controller
    if owner is None:
        return None
    if owner.kind == "ReplicaSet":
        return "Deployment", owner.name.rpartition("-")[0]
    return owner.kind, owner.name


def _is_fine(live: Object) -> bool:
    """Whether nobody will ask why the pod does not start."""
    ready = conditions(live).get("Ready", {}).get("status") == "True"
    return ready or (live.get("status") or {}).get("phase") == "Succeeded"


def _status(status: Object, *, watched: bool, fine: bool) -> Object:
    found = _only(status, ("phase", "podIP") if watched else ("phase",))
    shown = [
        entry for entry in _list(status, "conditions") if watched or entry["type"] in ({"Ready"} if fine else _TOLD)
    ]
    found["conditions"] = [_only(entry, _CONDITION) for entry in shown]
    count = sum(len(_list(status, name)) for name in ("initContainerStatuses", "containerStatuses"))
    if not fine:
        found |= _only(status, ("reason", "message"))
        found["initContainerStatuses"] = [_container(entry, count) for entry in _list(status, "initContainerStatuses")]
    if watched or not fine:
        found["containerStatuses"] = [_container(entry, count) for entry in _list(status, "containerStatuses")]
    return found


def _container(entry: Object, count: int) -> Object:
    found = _only(entry, _CONTAINER)
    waiting = (entry.get("state") or {}).get("waiting") or {}
    if waiting.get("reason", "ContainerCreating") not in {"ContainerCreating", "PodInitializing"}:
        found["image"] = entry.get("image", "")
    if ended := (entry.get("lastState") or {}).get("terminated"):
        log = last_log(ended.get("message", ""), count)
        found["lastState"] = {"terminated": {**_only(ended, _ENDED), "message": log}}
    return found


def _slim(meta: Meta) -> Meta:
    return msgspec.structs.replace(meta, annotations={}, finalizers=())


def _only(value: Mapping[str, Any], names: Iterable[str]) -> Object:
    return {name: value[name] for name in names if name in value}


def _list(value: Mapping[str, Any], name: str) -> list[Object]:
    return cast("list[Object]", value.get(name) or [])
