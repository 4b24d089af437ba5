"""The cloud of this folder: the one on Ceph, on one node, with stacks and secrets, and an S3 server outside of its
cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud.session import SAMPLES, Cloud, Session

from ..conftest import CABLED, stands
from ..on_backup.conftest import bucket_server
from ..s3 import S3Server

SAMPLE = SAMPLES / "controlplane_ceph.yaml"


def _change(spec: dict[str, Any]) -> None:
    enabled = {"enabled": True}
    spec.update(ovn={**spec.get("ovn", {}), **CABLED}, barbican=enabled, heat=enabled)


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The cloud of the sample, Ready."""
    with stands(SAMPLE, _change) as made:
        yield made


@pytest.fixture(scope="package")
def s3(stood: tuple[Session, Cloud], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that checks signatures, with an empty bucket."""
    del stood
    with bucket_server(tmp_path_factory.mktemp("s3") / "server", 2048) as server:
        yield server
