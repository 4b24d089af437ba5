"""The cloud of this folder: that of controlplane_full.yaml, in a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import SAMPLES, Cloud, Session

from ..conftest import Report, stands

SAMPLE = SAMPLES / "controlplane_full.yaml"


@pytest.fixture(scope="package")
def stood(report: Report) -> Iterator[tuple[Session, Cloud]]:
    """The cloud, Ready."""
    with stands(SAMPLE, lambda spec: spec) as found:
        report.add(full_cloud_seconds_to_ready=found[1].seconds)
        yield found


@pytest.fixture(name="administrator", scope="module")
def _administrator(stood: tuple[Session, Cloud]) -> Connection:
    """A connection for what the tests of a module share."""
    return proof.connect(stood[0].cluster, stood[1].namespace)
