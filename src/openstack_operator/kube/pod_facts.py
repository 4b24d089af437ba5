"""Facts that are read off a pod."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from ..plan import Object
from ..plan.times import valid_time
from .objects import INSTANCE, KIND
from .rollout import conditions

TEMPLATE_DIGEST = "openstack.k8s.io/template"
"""Annotation of a pod that the operator replaces: the digest of the template that it was made from."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""A time before all others, of what has none."""


def is_placed(pod: Object) -> bool:
    """Return True if a node runs the pod, or is to."""
    return bool((pod.get("spec") or {}).get("nodeName"))


def node_of(pod: Object) -> str:
    """Return the node of a pod: of one of a DaemonSet also before that has room for it, as the DaemonSet's controller
    names the node in the affinity of each pod. Empty if the pod does not say.
    """
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        return spec["nodeName"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    fields = [each for term in required.get("nodeSelectorTerms") or () for each in term.get("matchFields") or ()]
    names = [each["values"] for each in fields if each["key"] == "metadata.name" and each["operator"] == "In"]
    return names[0][0] if names and names[0] else ""


def template_digest(pod: Object) -> str:
    """Return the digest of the template of a pod that the operator replaces; empty for all others."""
    return (pod["metadata"].get("annotations") or {}).get(TEMPLATE_DIGEST, "")


def predecessor(pod: Object, pods: Iterable[Object]) -> Object | None:
    """Return the pod that still ends where this one is to run, if the operator replaces both and they are of the same
    resource: a node may change its DaemonSet. None for a pod that has its node already.
    """
    if is_placed(pod) or not node_of(pod) or not template_digest(pod):
        return None
    ending = (each for each in pods if each["metadata"].get("deletionTimestamp") and template_digest(each))
    return next((each for each in ending if is_placed(each) and _place(each) == _place(pod)), None)


def _place(pod: Object) -> tuple[str, ...]:
    labels = pod["metadata"].get("labels") or {}
    return node_of(pod), labels.get(KIND, ""), labels.get(INSTANCE, "")


def pod_on_node(pod: Object) -> str:
    """Return `<pod> on node <node>`, without the node if it has none."""
    node = (pod.get("spec") or {}).get("nodeName")
    return pod["metadata"]["name"] + (f" on node {node}" if node else "")


def phase(pod: Object) -> str:
    """Return the pod's phase; empty before it has one."""
    return (pod.get("status") or {}).get("phase", "")


def container_statuses(pod: Object) -> list[Object]:
    """Return the statuses of all containers, those of the init containers first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def volume_claim_names(pod: Object) -> list[str]:
    """Return the names of the volume claims that the pod mounts."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return [(volume.get("persistentVolumeClaim") or {}).get("claimName", "") for volume in volumes]


def unready_since(pod: Object) -> datetime:
    """Return since when a pod has not been ready; if its node has not reported that yet, since it has that node."""
    by_type = conditions(pod)
    ready, scheduled = by_type.get("Ready", {}), by_type.get("PodScheduled", {})
    has_node = scheduled.get("status") == "True"
    since = parse_time(scheduled.get("lastTransitionTime") if has_node else None, created_at(pod))
    return parse_time(ready.get("lastTransitionTime") if ready.get("status") == "False" else None, since)


def created_at(pod: Object) -> datetime:
    """Return the time at which the pod was made."""
    return parse_time(pod["metadata"].get("creationTimestamp"), LONG_AGO)


def parse_time(stamp: str | None, otherwise: datetime) -> datetime:
    """Return a Kubernetes time, which has whole seconds; `otherwise` if there is none that is valid."""
    at = valid_time(stamp)
    return at.replace(microsecond=0) if at else otherwise
