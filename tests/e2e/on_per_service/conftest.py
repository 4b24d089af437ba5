"""The cloud of this folder: that of controlplane_per_service.yaml, in a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud.session import SAMPLES, Cloud, Session

from ..conftest import Report, stands

SAMPLE = SAMPLES / "controlplane_per_service.yaml"


@pytest.fixture(scope="package")
def stood(report: Report) -> Iterator[tuple[Session, Cloud]]:
    """The cloud, Ready."""
    with stands(SAMPLE, lambda spec: spec) as found:
        report.add(per_service_cloud_seconds_to_ready=found[1].seconds)
        yield found


@pytest.fixture(scope="package")
def proof_of_server(stood: tuple[Session, Cloud]) -> dict[str, Any]:
    """A server that was made once, with an image and a network: facts about it."""
    session, cloud = stood
    return session.prove(cloud)
