"""One cloud for all of these tests, which run in the order they are written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cloud.kubernetes import Kubernetes
from cloud.session import MINIMAL, Cloud, Session

from ..conftest import stands

TESTS = r"tempest\.api\.identity\.(v3\.test_(tokens|projects|catalog|api_discovery)|admin\.v3\.test_domains\.)"
"""A handful, of Keystone alone: nothing has to boot."""


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud in a cluster of its own, with a Tempest that runs when it is told to; Ready."""
    tempest = {"enabled": True, "tests": {"includeRegex": TESTS, "services": ["identity"], "timeout": "20m"}}
    with stands(MINIMAL, lambda spec: spec.update(tempest=tempest)) as found:
        yield found


@pytest.fixture
def cluster(stood: tuple[Session, Cloud]) -> Kubernetes:
    return stood[0].cluster
