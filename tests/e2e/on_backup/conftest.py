"""The cloud of this folder: the minimal one, in the place of any other, and an S3 server outside of its cluster."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import module
from tools.localcluster.layout import Cluster
from tools.localcluster.target import target

from ..conftest import stays
from ..s3 import S3Server, host_of

BUCKET = "backups"


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud, Ready."""
    if target().kind != "embedded":
        pytest.skip("the S3 server is on the network of the embedded cluster's nodes")
    module("tools.localcluster", "down")
    try:
        with stays(MINIMAL) as made:
            yield made
    finally:
        module("tools.localcluster", "down")


@pytest.fixture(scope="package")
def s3(stood: tuple[Session, Cloud], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that checks signatures, with an empty bucket."""
    del stood
    with bucket_server(tmp_path_factory.mktemp("s3") / "server", 1024) as server:
        yield server


@contextmanager
def bucket_server(folder: Path, mebibytes: int) -> Generator[S3Server]:
    """A server with an empty bucket on a disk of this size, which the nodes of the embedded cluster reach."""
    with S3Server(folder, address=host_of(Cluster()), mebibytes=mebibytes) as server:
        server.create_bucket(BUCKET)
        yield server
