"""The cluster of this folder: two nodes, and this machine as the router of their external network."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import yaml
from openstack.connection import Connection

from chaos.servers import Guest, guests
from cloud import deploy, proof
from cloud.kubernetes import ROOT, Kubernetes, module
from cloud.session import SAMPLES, Cloud, Session
from localcluster.target import target

from .volumes import NAMESPACE

SAMPLE = SAMPLES / "controlplane_ceph.yaml"
NODES = 2
# One node is the router of the external network; of several, each has a cable to it and to the others.
CABLED = {"tunnelInterface": "eth1", "externalBridge": {"interface": "eth2"}}


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """A cluster of two nodes in the place of any other, and the cloud of the sample in it, Ready."""
    if target().kind != "embedded":
        pytest.skip("servers are reached from the external network of the embedded cluster's nodes")
    module("localcluster", "down")
    found = deploy.documents(SAMPLE)
    plane = next(doc for doc in found if doc["kind"] == "OpenStackControlPlane")
    plane["spec"]["ovn"] = {**plane["spec"].get("ovn", {}), **CABLED}
    sample = ROOT / "build" / SAMPLE.name
    sample.parent.mkdir(exist_ok=True)
    sample.write_text(yaml.safe_dump_all(found))
    session = Session.start(sample, NODES)
    yield session, session.converge(sample, timeout=900)
    module("localcluster", "down")


@pytest.fixture
def cluster(stood: tuple[Session, Cloud]) -> Kubernetes:
    return stood[0].cluster


@pytest.fixture
def cloud(stood: tuple[Session, Cloud]) -> Cloud:
    return stood[1]


@pytest.fixture
def conn(cluster: Kubernetes) -> Connection:
    return proof.connect(cluster, NAMESPACE)


@pytest.fixture
def pair(cluster: Kubernetes) -> list[Guest]:
    """A server on each node, made once."""
    nodes = sorted(node["metadata"]["name"] for node in cluster.items("nodes", "-l", "openstack-compute-node=enabled"))
    return guests(partial(proof.connect, cluster, NAMESPACE), nodes[:NODES])
