"""Objects as their controllers leave them once all is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...plan import Object

_STAMP = "2026-01-01T00:00:00Z"


def granted(obj: Object) -> Object:
    """Return the object in the state in which its controllers leave it."""
    generation = obj["metadata"].get("generation", 1)
    return {
        **obj,
        "metadata": {**obj["metadata"], "generation": generation},
        "status": {**obj.get("status", {}), **granted_status(obj, generation)},
    }


def granted_status(obj: Mapping[str, Any], generation: int) -> Object:
    """Return the status of a finished object; empty for kinds that need none."""
    replicas = obj.get("spec", {}).get("replicas", 1)
    counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
    match obj["kind"]:
        case "Deployment":
            return {"observedGeneration": generation, **dict.fromkeys(counts, replicas)}
        case "StatefulSet":
            revision = f"{obj['metadata']['name']}-{generation}"
            revisions = {"currentRevision": revision, "updateRevision": revision, "currentReplicas": replicas}
            return {"observedGeneration": generation, **dict.fromkeys(counts, replicas), **revisions}
        case "DaemonSet":
            nodes = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberReady")
            return {"observedGeneration": generation, "numberMisscheduled": 0, **dict.fromkeys(nodes, 1)}
        case "Job":
            conditions = [_condition(type_, generation=None) for type_ in ("SuccessCriteriaMet", "Complete")]
            return {"startTime": _STAMP, "completionTime": _STAMP, "succeeded": 1, "conditions": conditions}
        case _ if _ours(obj["apiVersion"]):
            return {"observedGeneration": generation, "conditions": [_condition("Ready", generation=generation)]}
        case _:
            return {}


def _ours(api_version: str) -> bool:
    group = api_version.rpartition("/")[0]
    return group == "openstack.k8s.io" or group.endswith("c5c3.io")


def _condition(type_: str, *, generation: int | None) -> Object:
    condition: Object = {
        "type": type_,
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": _STAMP,
    }
    return condition if generation is None else {**condition, "observedGeneration": generation}
