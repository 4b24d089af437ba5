"""The cluster of this folder: two nodes for servers, and a Cortex that Nova's scheduler asks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import Kubernetes

from ..conftest import CABLED, stands

NAMESPACE = "openstack"
PAUSE = 5
"""Seconds Nova does not ask after a failure; by default it is longer than these tests want to wait."""


def _asks(spec: dict[str, Any]) -> None:
    spec["ovn"] = {**spec.get("ovn", {}), **CABLED}
    # Fuller nodes first, which is the opposite of Nova's own order.
    spec["cortex"] = {"enabled": True, "pipelines": {"nova": {"weighers": [{"name": "RAMWeigher", "weight": -1}]}}}
    spec["nova"] = {"scheduler": {"externalScheduler": {"timeout": "2s", "pauseAfterFailure": f"{PAUSE}s"}}}


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud on two nodes, Ready."""
    with stands(MINIMAL, _asks, nodes=2) as found:
        yield found


@pytest.fixture
def nodes(cluster: Kubernetes) -> list[str]:
    """Names of the two."""
    found = sorted(node["metadata"]["name"] for node in cluster.items("nodes", "-l", "openstack-compute-node=enabled"))
    assert len(found) == 2
    return found
