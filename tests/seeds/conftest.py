"""The API server of tests/cluster, for manifests that are not part of this project."""

from tests.cluster.conftest import cluster, kubeconfig

__all__ = ["cluster", "kubeconfig"]
