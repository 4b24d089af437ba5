"""The cluster of this folder: one node with the operator, and the images of MariaDB alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.cloud import deploy
from tools.localcluster.kubernetes import Kubernetes, module, started
from tools.localcluster.target import target

NAMESPACE = "infrastructure"
IMAGES = ("operator", "mariadb", "mariadb-10.11")


@pytest.fixture(scope="package")
def cluster() -> Iterator[Kubernetes]:
    """The cluster, with an empty namespace."""
    if target().kind != "embedded":
        pytest.skip("the images are brought to the nodes of the embedded cluster")
    module("tools.localcluster", "down")
    try:
        module("tools.localcluster", "build")
        module("images", "build", *IMAGES)
        kubernetes = started()
        module("images", "load", *IMAGES)
        deploy.install(kubernetes)
        kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield kubernetes
    finally:
        module("tools.localcluster", "down")
