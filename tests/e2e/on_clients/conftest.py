"""A cloud with volumes for all of these tests, which run in the order they are written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud.session import SAMPLES, Cloud, Session

from ..conftest import CABLED, stands
from ..on_tempest.conftest import add_services
from .ground import Ground, prepare

SAMPLE = SAMPLES / "controlplane_ceph.yaml"
NODES = 2


def change(spec: dict[str, Any]) -> None:
    """Have the services that are off by default, and this machine on the external network."""
    add_services(spec)
    spec["ovn"] = {**spec.get("ovn", {}), **CABLED}


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The cloud of the sample on two nodes, between which servers move, with more services, Ready."""
    with stands(SAMPLE, change, nodes=NODES) as found:
        yield found


@pytest.fixture(scope="package")
def ground(stood: tuple[Session, Cloud]) -> Ground:
    """What suites take for granted is in the cloud."""
    session, cloud = stood
    return prepare(session.cluster, cloud.namespace)
