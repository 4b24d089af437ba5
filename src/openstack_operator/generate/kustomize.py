"""One command for all of deploy/: a kustomization in the order in which its parts are to be applied."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..kube import Object

FOLDER = Path("deploy")


def kustomization(definitions: Iterable[Path], optional_roles: Iterable[Path]) -> Object:
    """A kustomization of the namespace, the definitions but for those of c5c3, the permissions with all that are
    optional, who may run what on nodes, and the operator, for `kubectl apply --server-side -k deploy`.
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
