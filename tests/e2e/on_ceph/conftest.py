"""The cluster of this folder: two nodes, and this machine as the router of their external network."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from openstack.connection import Connection

from tools.chaos.servers import Guest, guests
from tools.cloud import proof
from tools.cloud.session import SAMPLES, Cloud, Session

from ..conftest import CABLED, stands
from ..waiting import server_reaches
from .volumes import NAMESPACE

SAMPLE = SAMPLES / "controlplane_ceph.yaml"
NODES = 2


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The cloud of the sample on two nodes, Ready."""
    with stands(SAMPLE, lambda spec: spec.update(ovn={**spec.get("ovn", {}), **CABLED}), nodes=NODES) as found:
        yield found


@pytest.fixture(scope="package")
def made(stood: tuple[Session, Cloud]) -> list[Guest]:
    """A server on each node, made once."""
    cluster = stood[0].cluster
    nodes = sorted(node["metadata"]["name"] for node in cluster.items("nodes", "-l", "openstack-compute-node=enabled"))
    return guests(partial(proof.connect, cluster, NAMESPACE), nodes[:NODES])


@pytest.fixture
def pair(conn: Connection, made: list[Guest]) -> list[Guest]:
    """The two servers, which run: one that a failed test left behind, and nobody starts, is not waited for."""
    compute: Any = conn.compute
    for guest in made:
        server = compute.get_server(guest.id)
        if server.status == "SHUTOFF" and not server.task_state:
            compute.start_server(guest.id)
        server_reaches(conn, guest.id, "ACTIVE", 60)
    return made
