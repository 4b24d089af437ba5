"""The committed answers of kubectl are those of the kubectl that is built."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import pytest

from tests.kubeconfigs import Stand, golden, kubectl, rows, stand
from tools.localcluster import build


@pytest.fixture(scope="module", name="server")
def _server() -> Generator[Stand]:
    try:
        build.binary("kubernetes", "kubectl")
    except build.BuildError as error:
        pytest.skip(f"kubectl is not built: {error}")
    with stand() as one:
        yield one


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"])
def test_kubectl_answers_as_committed(server: Stand, row: Mapping[str, Any]) -> None:
    assert kubectl(server, row) == golden()[row["name"]]
