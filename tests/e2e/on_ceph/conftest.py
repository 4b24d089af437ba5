"""The cluster of this folder: two nodes, and this machine as the router of their external network."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
from openstack.connection import Connection

from chaos.servers import Guest, guests
from cloud import proof
from cloud.kubernetes import Kubernetes
from cloud.session import SAMPLES, Cloud, Session

from ..conftest import CABLED, stands
from .volumes import NAMESPACE

SAMPLE = SAMPLES / "controlplane_ceph.yaml"
NODES = 2


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The cloud of the sample on two nodes, Ready."""
    with stands(SAMPLE, lambda spec: spec.update(ovn={**spec.get("ovn", {}), **CABLED}), nodes=NODES) as found:
        yield found


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
