"""Additions of the operator to each object of a plan: its namespace, its owner, and a digest of its content."""

from __future__ import annotations

import hashlib

import msgspec

from ...kube import INSTANCE, KIND, MANAGED_BY, RECREATED, RETAIN
from ...plan import Object
from ...plan.steps import WORKLOADS
from ..cache.entries import Meta, OwnerLabels
from ..kubernetes.kinds import Kind


def owned(desired: Object, owner: Meta, owner_kind: Kind, labels: OwnerLabels) -> Object:
    """Return the object with its namespace, labels and owner. What is retained has no owner, by which Kubernetes would
    delete it.
    """
    metadata = desired["metadata"]
    added: Object = {
        "namespace": owner.namespace,
        "labels": {
            **metadata.get("labels", {}),
            "app.kubernetes.io/managed-by": MANAGED_BY,
            KIND: labels[1],
            INSTANCE: labels[2],
        },
    }
    if desired["kind"] in WORKLOADS:
        # When a user deletes the workload by mistake, its pods run on (decision 0047).
        added["finalizers"] = [RECREATED]
    if "ownerReferences" not in metadata and metadata.get("annotations", {}).get(RETAIN) != "true":
        reference = {
            "apiVersion": owner_kind.api_version,
            "kind": owner_kind.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        added["ownerReferences"] = [reference]
    return {**desired, "metadata": {**metadata, **added}}


def stamp_of(body: Object) -> str:
    """Return a digest of an object, 16 characters, the same for every order of its fields."""
    return hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()[:16]
