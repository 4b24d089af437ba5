"""Programs of a highly available cloud that run once, reported as one condition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .context import Context
from .fitting_names import fitting
from .steps import Object, Plan, key
from .verdict import State, Verdict

SINGLE_COPY = "SingleCopy"
"""Condition of a resource of a highly available cloud with such programs; True, and only there while it has some."""

HIGHLY_AVAILABLE = "openstack.k8s.io/highly-available"
"""Annotation of each resource of a cloud that is to go on without any one of its nodes."""


def single_copies(ctx: Context[Any], plan: Plan, dispensable: Sequence[str]) -> str:
    """Return the message that names each workload of a plan with one replica, and each server with one replica that
    another operator runs; empty if there is none, or the cloud is not highly available. Without those that are
    `dispensable`, by the end of their names after that of the resource.
    """
    if ctx.annotations.get(HIGHLY_AVAILABLE) != "true":
        return ""
    left_out = {fitting(f"{ctx.owner}{end}") for end in dispensable}
    volumes = {key(obj): obj for obj in plan.objects if obj["kind"] == "PersistentVolumeClaim"}
    return ", ".join(
        f"{obj['kind']}/{obj['metadata']['name']} (1 replica{_reason(obj, volumes)})"
        for obj in plan.objects
        if (obj.get("spec") or {}).get("replicas") == 1 and obj["metadata"]["name"] not in left_out
    )


def single_copy_verdict(*messages: str) -> dict[str, Verdict]:
    """Return the condition with these messages; none without one."""
    text = ", ".join(message for message in messages if message)
    return {SINGLE_COPY: Verdict(State.READY, text, "OneReplica")} if text else {}


def _reason(workload: Object, volumes: Mapping[tuple[str, str], Object]) -> str:
    """Return why a workload cannot have more, if its pods mount a volume of one node."""
    claims = (volumes.get(("PersistentVolumeClaim", name)) for name in _claims(workload))
    if any(claim and claim["spec"]["accessModes"] == ["ReadWriteOnce"] for claim in claims):
        return "; its volume is ReadWriteOnce"
    return ""


def _claims(workload: Object) -> Iterator[str]:
    """Yield the names of the claims that a workload's pods mount."""
    pod = workload["spec"].get("template", {}).get("spec", {})
    for volume in pod.get("volumes") or ():
        if claim := volume.get("persistentVolumeClaim"):
            yield claim["claimName"]
