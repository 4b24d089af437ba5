"""One command for all of deploy/: a kustomization in the order in which its parts are to be applied."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..kube import Object

FOLDER = Path("deploy")


def kustomization(definitions: Iterable[Path], optional_roles: Iterable[Path]) -> Object:
    """Return the kustomization for `kubectl apply --server-side -k deploy`: the namespace, the definitions except those
    of c5c3, all permissions including optional ones, the policies for nodes, and the operator.
    """
    paths, roles = (
        sorted(path.relative_to(FOLDER).as_posix() for path in files) for files in (definitions, optional_roles)
    )
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # Namespaces and definitions first, what runs pods last.
        "sortOptions": {"order": "legacy"},
        "resources": [*paths, "rbac.yaml", *roles, "roles.yaml", "admission.yaml", "operator.yaml"],
    }
