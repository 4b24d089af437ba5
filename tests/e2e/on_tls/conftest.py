"""One cloud for all of these tests, which run in the order of their files: plain at first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.cloud.session import MINIMAL, Cloud, Session

from ..conftest import stands


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud in a cluster of its own, plain and Ready."""
    with stands(MINIMAL, lambda spec: spec.update(tls={"enabled": False})) as found:
        yield found
