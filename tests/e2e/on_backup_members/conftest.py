"""The cloud of this folder: the minimal one with three members of MariaDB, and an S3 server outside of its cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud.session import MINIMAL, Cloud, Session

from ..conftest import CABLED, stands
from ..on_backup.conftest import bucket_server
from ..s3 import S3Server


def _change(spec: dict[str, Any]) -> None:
    spec["mariadb"] = {**spec.get("mariadb", {}), "replicas": 3}
    spec["ovn"] = {**spec.get("ovn", {}), **CABLED}


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The cloud, Ready."""
    # Two members are on no node together.
    with stands(MINIMAL, _change, nodes=3) as made:
        yield made


@pytest.fixture(scope="package")
def s3(stood: tuple[Session, Cloud], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that checks signatures, with an empty bucket."""
    del stood
    with bucket_server(tmp_path_factory.mktemp("s3") / "server", 1024) as server:
        yield server
