"""A cluster of the user's own: what it must have, looked at before anything is built."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from images.registry import prefix

from ..localcluster.kubernetes import NODE_LABELS, KubeError, Kubernetes

REGISTRY = "OPENSTACK_OPERATOR_REGISTRY"


def checked(sample: Path, images: Sequence[str]) -> Kubernetes:
    """Return the cluster that `KUBECONFIG` names. Raises KubeError that names the first thing missing for it."""
    cluster = Kubernetes("existing", None, registry(images))
    if not shutil.which("kubectl"):
        raise KubeError("kubectl is not in PATH; install it, or unset KUBECONFIG to use a cluster on this machine")
    cluster.kubectl("version", "--request-timeout=10s")
    _check_labels(cluster)
    if "storageClass" not in sample.read_text() and not _has_default_storage(cluster):
        raise KubeError(
            "no StorageClass is the default; mark one with the annotation storageclass.kubernetes.io/is-default-class,"
            " or name one in the sample's storageClassName fields"
        )
    return cluster


def registry(images: Sequence[str]) -> str:
    """Return the registry that the user names for this checkout's images. Raises KubeError that lists these, if none is
    named.
    """
    if name := os.environ.get(REGISTRY):
        try:
            return prefix(name)
        except argparse.ArgumentTypeError as error:
            raise KubeError(f"{REGISTRY}: {error}") from None
    raise KubeError(
        f"KUBECONFIG names a cluster of your own ({os.environ.get('KUBECONFIG', '')}), whose nodes cannot be given"
        f" images from here. Set {REGISTRY} to a registry that they can pull from and you can push to, such as"
        f" registry.example.org/openstack-operator; these images are built here and pushed there: {', '.join(images)}."
        " A sample with `imageProfile: kolla` (python -m tools.cloud up --sample FILE) needs only operator there, and"
        " nodes that reach quay.io. Unset KUBECONFIG to use a cluster on this machine. Nothing was done."
    )


def _check_labels(cluster: Kubernetes) -> None:
    missing = [label for label in NODE_LABELS if not cluster.items("nodes", "-l", f"{label}=enabled")]
    if missing:
        pairs = " ".join(f"{label}=enabled" for label in missing)
        raise KubeError(f"no node is labeled for this role; choose nodes and run: kubectl label node NAME… {pairs}")


def _has_default_storage(cluster: Kubernetes) -> bool:
    marks = [each["metadata"].get("annotations", {}) for each in cluster.items("storageclasses")]
    return any(mark.get("storageclass.kubernetes.io/is-default-class") == "true" for mark in marks)
