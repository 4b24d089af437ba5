"""What the chaos harness watches, read from a real API server."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import yaml

from tools.chaos.lists import Lists, Object
from tools.localcluster.kubernetes import KubeError

from . import toy
from .harness import Cluster, eventually


def _well(_item: Object) -> bool:
    return True


async def test_resources_are_listed_with_their_kinds(cluster: Cluster, kubeconfig: Path) -> None:
    await cluster.create(toy.STACK, "one")
    lists = Lists(kubeconfig)

    async def look() -> list[dict[str, object]]:
        # Of definitions that are new, the API server says for a while that it makes room for them.
        with contextlib.suppress(KubeError):
            return lists.watched(cluster.namespace, _well)
        return []

    found = await eventually(look)
    assert [(item["kind"], item["metadata"]["name"]) for item in found] == [("Stack", "one")]
    lists.close()
    assert lists.watched(cluster.namespace, _well) == found
    lists.close()


def test_an_api_server_that_is_gone_is_told(kubeconfig: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    away = tmp_path / "kubeconfig"
    away.write_text(yaml.safe_dump(config))
    lists = Lists(away)
    for _ in range(2):
        with pytest.raises(KubeError, match="refused"):
            lists.watched("default", _well)
