"""The cluster of this folder: one node for the control plane, and one for hypervisors of another namespace, which
stands for another cluster. Programs of hypervisors use their node's network and DNS, so they know no Service.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tools.cloud import deploy
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import NODE_LABELS, ROOT, Kubernetes, module
from tools.localcluster.target import target

from ..conftest import stage

FAR = "node2"
"""Name of the node of the hypervisors."""
LABEL = "example.org/hypervisors"


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """A cloud without compute nodes of its own, Ready."""
    if target().kind != "embedded":
        pytest.skip("nodes and their networks are those of the embedded cluster")
    module("tools.localcluster", "down")
    try:
        session = Session.start(MINIMAL, nodes=2)
        cluster = session.cluster
        cluster.kubectl("label", "node", FAR, *(f"{name}-" for name in NODE_LABELS), f"{LABEL}=yes")
        with stage(cluster, "openstack") as entered:
            yield session, session.converge(_sample(cluster), timeout=900, in_vain=entered.in_vain)
    finally:
        module("tools.localcluster", "down")


def _sample(cluster: Kubernetes) -> Path:
    """The minimal sample, exposed for hypervisors elsewhere at the address of the first node."""
    objects, at = deploy.documents(MINIMAL), {"host": cluster.address()}
    [plane] = [each for each in objects if each["kind"] == "OpenStackControlPlane"]
    spec = plane["spec"]
    spec["rabbitmq"] |= {"remoteAccess": at}
    spec["ovn"] |= {"tunnelInterface": "eth1", "remoteChassis": {**at, "nodes": [FAR]}}
    spec["neutron"] = {"metadataAgent": {"enabled": False}}
    spec["nova"] = {
        "compute": {"enabled": False},
        "metadata": {"remoteAccess": at},
        "cells": [{"name": "cell1", "computeRef": {"name": "hypervisors-1", "elsewhere": True}}],
    }
    path = ROOT / "build" / "hypervisors.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump_all(objects))
    return path
