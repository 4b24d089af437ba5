"""Pods as plans and verdicts see them: of each only what they use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from ...kube import INSTANCE, KIND, MANAGED_BY, ON_DELETE, VERSION, WATCHED, conditions, lacks_image, last_log
from ...plan import Object
from ..kubernetes.kinds import DAEMON_SET, Kind
from .entries import Cached, Meta, OwnerReference

SELECTOR = f"app.kubernetes.io/managed-by={MANAGED_BY}"

_TIMES = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_META = ("name", "namespace", "uid", "labels", "annotations", *_TIMES)
_META_UNWATCHED = tuple(name for name in _META if name != "annotations")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER = ("name", "ready", "started", "restartCount", "state")
_TERMINATED = ("reason", "exitCode", "message", "startedAt", "finishedAt")
_STARTING = {"PodScheduled", "Ready", "ContainersReady", "PodReadyToStartContainers"}
"""Conditions that say why a pod does not start."""
_LABELS = {KIND, INSTANCE}
_LABELS_UNREADY = {*_LABELS, VERSION}


def trimmed(item: bytes, kind: Kind) -> Cached:
    """Return an entry without the nine tenths of a pod that have no use, nor its version: same bytes mean no change.

    Of pods that no plan looks at, only what may keep them from starting is left; of those that run, hardly anything.
    """
    live: Object = msgspec.json.decode(item)
    watched = (live["metadata"].get("labels") or {}).get(WATCHED) == "true"
    fine = _is_fine(live)
    owners = [owner for owner in live["metadata"].get("ownerReferences") or () if owner.get("controller")]
    meta = _only(live["metadata"], _META if watched else _META_UNWATCHED)
    if owners:
        meta["ownerReferences"] = [
            _only(owner, ("apiVersion", "kind", "name", "uid", "controller")) for owner in owners
        ]
    if not watched:
        names = _LABELS if fine else _LABELS_UNREADY
        meta["labels"] = {name: value for name, value in meta.get("labels", {}).items() if name in names}
    spec: Object = live.get("spec") or {}
    volumes = [] if fine else [volume for volume in _list(spec, "volumes") if "persistentVolumeClaim" in volume]
    content = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": meta,
        "spec": {**_place(spec, watched=watched), **({"volumes": volumes} if volumes else {})},
        "status": _status(live.get("status") or {}, watched=watched, fine=fine),
    }
    # Labels and annotations as they are: the code that labels a pod compares them.
    entry_meta = msgspec.convert({**live["metadata"], **meta}, Meta)
    return Cached(entry_meta if watched else _slim(entry_meta), msgspec.json.encode(content))


def workload_of(meta: Meta) -> tuple[str, str] | None:
    """Return kind and name of the workload that made a pod: of a Deployment, through its ReplicaSet."""
    owner: OwnerReference | None = meta.controller
    if owner is None:
        return None
    if owner.kind == "ReplicaSet":
        return "Deployment", owner.name.rpartition("-")[0]
    return owner.kind, owner.name


def seen_by_plans(pods: Iterable[Cached], children: Iterable[tuple[Kind, Cached]]) -> list[Object]:
    """Return the pods that plans look at: those with the label WATCHED, and all of a DaemonSet whose pods the operator
    replaces, since pods of an earlier version may lack the label.
    """
    replaced = {
        child.meta.uid
        for kind, child in children
        if kind is DAEMON_SET and child.decode()["spec"].get("updateStrategy", {}).get("type") == ON_DELETE
    }
    return [
        pod.decode()
        for pod in pods
        if WATCHED in pod.meta.labels or ((owner := pod.meta.controller) and owner.uid in replaced)
    ]


def without_image(pods: Iterable[Cached]) -> list[tuple[str, str, str]]:
    """Return kind and name of the workload, and the label of the version, of each pod that never started for want of an
    image.
    """
    return [
        (*owner, pod.meta.labels.get(VERSION, ""))
        for pod in pods
        if (owner := workload_of(pod.meta)) and VERSION in pod.meta.labels and lacks_image(pod.decode())
    ]


def _place(spec: Object, *, watched: bool) -> Object:
    """Return the node of a pod; before it has one, what a DaemonSet's controller says of it."""
    if spec.get("nodeName") or not watched:
        return _only(spec, ("nodeName",))
    affinity = _only(spec.get("affinity") or {}, ("nodeAffinity",))
    return {"affinity": affinity} if affinity else {}


def _is_fine(live: Object) -> bool:
    """Return whether no verdict has to say why the pod does not start."""
    ready = conditions(live).get("Ready", {}).get("status") == "True"
    return ready or (live.get("status") or {}).get("phase") == "Succeeded"


def _status(status: Object, *, watched: bool, fine: bool) -> Object:
    result = _only(status, ("phase", "podIP") if watched else ("phase",))
    entries = [
        entry for entry in _list(status, "conditions") if watched or entry["type"] in ({"Ready"} if fine else _STARTING)
    ]
    result["conditions"] = [_only(entry, _CONDITION) for entry in entries]
    count = sum(len(_list(status, name)) for name in ("initContainerStatuses", "containerStatuses"))
    if not fine:
        result |= _only(status, ("reason", "message"))
        result["initContainerStatuses"] = [_container(entry, count) for entry in _list(status, "initContainerStatuses")]
    if watched or not fine:
        result["containerStatuses"] = [_container(entry, count) for entry in _list(status, "containerStatuses")]
    return result


def _container(entry: Object, count: int) -> Object:
    result = _only(entry, _CONTAINER)
    waiting = (entry.get("state") or {}).get("waiting") or {}
    if waiting.get("reason", "ContainerCreating") not in {"ContainerCreating", "PodInitializing"}:
        result["image"] = entry.get("image", "")
    if terminated := (entry.get("lastState") or {}).get("terminated"):
        log = last_log(terminated.get("message", ""), count)
        result["lastState"] = {"terminated": {**_only(terminated, _TERMINATED), "message": log}}
    return result


def _slim(meta: Meta) -> Meta:
    return msgspec.structs.replace(meta, annotations={}, finalizers=())


def _only(value: Mapping[str, Any], names: Iterable[str]) -> Object:
    return {name: value[name] for name in names if name in value}


def _list(value: Mapping[str, Any], name: str) -> list[Object]:
    return cast("list[Object]", value.get(name) or [])
