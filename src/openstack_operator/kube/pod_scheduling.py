"""Pods that find no node, volume or network, or whose node took them away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..plan import Object
from .pod_admission import NEW_CLAIM
from .pod_causes import (
    SETTLE,
    STALLED_AFTER,
    STALLED_SOON_AFTER,
    USUAL_START,
    Cause,
    Warnings,
    cause_of,
    first_seen,
    latest,
    with_reasons,
)
from .pod_facts import container_statuses, created_at, parse_time, pod_on_node, unready_since, volume_claim_names
from .pod_reasons import EVICTED, NODE, SANDBOX, UNBOUND, UNMOUNTED, UNSCHEDULABLE
from .quotes import one_line

_MOUNT = {"FailedMount", "FailedAttachVolume", "FailedMapVolume"}
_PROVISION = {"ProvisioningFailed", "FailedBinding"}


def scheduling_cause(pod: Object, by_type: Mapping[str, Object], warnings: Warnings) -> Cause | None:
    """Return why the pod has no node, or no volume that decides its node."""
    scheduled = by_type.get("PodScheduled", {})
    if scheduled.get("status") != "False":
        return None
    since = parse_time(scheduled.get("lastTransitionTime"), created_at(pod))
    said = one_line(scheduled.get("message", ""))
    # An Event about a claim may be an hour old; what the scheduler says of nodes alone is not for a lack of volumes.
    of_volumes = any(word in said.lower() for word in ("volume", "storageclass"))
    claims = [name for name in volume_claim_names(pod) if name and (of_volumes or "nodes are available" not in said)]
    troubles = [
        (name, latest(with_reasons(warnings("PersistentVolumeClaim", name, ""), _PROVISION))) for name in claims
    ]
    for name, event in troubles:
        if event:
            text = f"has no volume: claim {name} is not bound: {one_line(event['message'])}"
            hint = "; create that StorageClass, or name another" if "storageclass" in event["message"].lower() else ""
            stalls = STALLED_SOON_AFTER if hint else STALLED_AFTER
            return Cause(reason=UNBOUND, text=text + hint, since=since, stalls=stalls, pod=pod_on_node(pod))
    if "persistentvolumeclaim" in said.lower() and "is being deleted" in said:
        return Cause(reason=UNBOUND, text=f"has no volume: {said}; {NEW_CLAIM}", since=since, pod=pod_on_node(pod))
    if "persistentvolumeclaim" in said.lower() or "storageclass" in said.lower():
        text = f"has no volume: {said}; look at claim {', '.join(claims) or 'of the pod'} and its StorageClass"
        return Cause(reason=UNBOUND, text=text, since=since, shown_at=since + SETTLE, pod=pod_on_node(pod))
    text = f"cannot be scheduled: {said or scheduled.get('reason', '')}"
    return Cause(reason=UNSCHEDULABLE, text=text, since=since, pod=pod_on_node(pod))


def preparation_cause(pod: Object, by_type: Mapping[str, Object], about: Sequence[Object]) -> Cause | None:
    """Return what a pod on its node lacks before any container can start."""
    if by_type.get("PodReadyToStartContainers", {}).get("status") == "True":
        return None
    if any((container.get("state") or {}).get("running") for container in container_statuses(pod)):
        return None
    if event := latest(with_reasons(about, _MOUNT)):
        shown_at = first_seen(event) + SETTLE
        text = f"cannot mount a volume: {one_line(event['message'])}"
        return cause_of(pod, UNMOUNTED, text, STALLED_AFTER, shown_at)
    if event := latest(with_reasons(about, {"FailedCreatePodSandBox", "NetworkNotReady"})):
        shown_at = first_seen(event) + USUAL_START / 3
        text = f"has no network or sandbox on the node: {one_line(event['message'])}"
        return cause_of(pod, SANDBOX, text, STALLED_AFTER, shown_at)
    return None


def silent_node_cause(pod: Object, by_type: Mapping[str, Object]) -> Cause | None:
    """Return the cause of a pod whose node is silent: Kubernetes calls it unready, and leaves what its containers last
    reported.
    """
    gates = (pod.get("spec") or {}).get("readinessGates")
    ready, containers = by_type.get("Ready", {}), by_type.get("ContainersReady", {})
    if gates or ready.get("status") != "False" or containers.get("status") != "True":
        return None
    since = unready_since(pod)
    text = "cannot be reached: the node does not report; repair it, or, if it is off, taint it out-of-service"
    return Cause(reason=NODE, text=text, since=since, stalls=None, shown_at=since + SETTLE, pod=pod_on_node(pod))


def eviction_cause(workload: Mapping[str, Any], pod: Object) -> Cause | None:
    """Return the cause of a pod that was evicted, and that another one replaces. None for a Job, which counts those
    itself.
    """
    status = pod["status"]
    if workload["kind"] == "Job" or not status.get("reason"):
        return None
    text = f"was ended by Kubernetes ({status['reason']}): {one_line(status.get('message', ''))}"
    return Cause(reason=EVICTED, text=text, since=created_at(pod), stalls=None, pod=pod_on_node(pod))
