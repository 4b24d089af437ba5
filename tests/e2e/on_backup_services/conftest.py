"""The cloud of this folder: that of controlplane_full.yaml, and an S3 server outside of its cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.cloud.session import Cloud, Session

from ..conftest import stands
from ..on_backup.conftest import bucket_server
from ..on_services.conftest import SAMPLE
from ..s3 import S3Server


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The cloud of the sample, Ready."""
    with stands(SAMPLE, lambda spec: spec) as made:
        yield made


@pytest.fixture(scope="package")
def s3(stood: tuple[Session, Cloud], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that checks signatures, with an empty bucket."""
    del stood
    with bucket_server(tmp_path_factory.mktemp("s3") / "server", 1024) as server:
        yield server
