"""Objects as a cluster has them: resources of the operator, workloads and pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from openstack_operator import kube
from openstack_operator.plan import Object
from openstack_operator.registry import RESOURCES

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
THEN = "2026-01-01T12:00:00Z"
OWN = {each.kind: each for each in reversed(RESOURCES)}


def meta(kind: str, name: str, owner: str = "", **more: Any) -> Object:
    owners = [{"kind": owner.partition("/")[0], "name": owner.partition("/")[2], "uid": owner, "controller": True}]
    fields = {"ownerReferences": owners} if owner else {}
    base = {"name": name, "namespace": "openstack", "uid": f"{kind}/{name}", "generation": 1}
    return {**base, "creationTimestamp": THEN, **fields, **more}


def resource(
    name: str, owner: str = "", *, reason: str = "", message: str = "", stalled: bool = False, **spec: Any
) -> Object:
    """A resource `Kind/name` of ours; Ready without a reason."""
    kind, _, own_name = name.partition("/")
    status = "False" if reason else "True"
    stamps = {"observedGeneration": 1, "lastTransitionTime": THEN}
    conditions = [{"type": "Ready", "status": status, "reason": reason or "Ready", "message": message, **stamps}]
    conditions += [{"type": "Stalled", "status": "True", "reason": reason, "message": message, **stamps}] * stalled
    api = OWN[kind].api_version
    metadata = meta(kind, own_name, owner)
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


def deployment(name: str, owner: str, ready: int = 0) -> Object:
    status = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    metadata = meta("Deployment", name, owner)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": 1},
        "status": status,
    }


def pod(name: str, workload: str, role: str, state: Mapping[str, Any], **container: Any) -> Object:
    owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{workload}-1", "uid": "rs", "controller": True}]
    labels = {"app.kubernetes.io/managed-by": kube.MANAGED_BY, kube.KIND: role, kube.INSTANCE: role}
    statuses = [{"name": "main", "ready": False, "restartCount": 0, "image": "x", "state": dict(state), **container}]
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": THEN}]
    conditions.append({"type": "Ready", "status": "False", "lastTransitionTime": THEN})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta("Pod", name), "labels": labels, "ownerReferences": owners},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", "conditions": conditions, "containerStatuses": statuses},
    }
