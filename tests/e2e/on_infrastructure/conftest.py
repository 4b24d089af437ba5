"""The cluster of this folder: one node with the operator, and the images of MariaDB alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloud import deploy
from cloud.kubernetes import Kubernetes, module, started
from localcluster.target import target

NAMESPACE = "infrastructure"
IMAGES = ("operator", "mariadb", "mariadb-10.11")


@pytest.fixture(scope="package")
def cluster() -> Iterator[Kubernetes]:
    """The cluster, with an empty namespace."""
    if target().kind != "embedded":
        pytest.skip("the images are brought to the nodes of the embedded cluster")
    module("localcluster", "down")
    try:
        module("localcluster", "build")
        module("images", "build", *IMAGES)
        kubernetes = started()
        module("images", "load", *IMAGES)
        deploy.install(kubernetes)
        kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield kubernetes
    finally:
        module("localcluster", "down")
