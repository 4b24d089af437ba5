"""The cloud of this folder: that of controlplane_full.yaml, in a cluster of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloud.session import SAMPLES, Cloud, Session

from ..conftest import Report, stands

SAMPLE = SAMPLES / "controlplane_full.yaml"


@pytest.fixture(scope="package")
def stood(report: Report) -> Iterator[tuple[Session, Cloud]]:
    """The cloud, Ready."""
    with stands(SAMPLE, lambda spec: spec) as found:
        report.add(full_cloud_seconds_to_ready=found[1].seconds)
        yield found
