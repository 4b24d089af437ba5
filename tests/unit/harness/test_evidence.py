"""What is kept of a cloud in which a test failed."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from tests.e2e import evidence
from tools.localcluster.kubernetes import KubeError, Kubernetes


class _Cluster:
    """One pod that never ended, and an API server that does not have everything."""

    def kubectl(self, *words: str, timeout: float = 0) -> str:
        if "--previous" in words or "events" in words:
            raise KubeError("not there")
        return "nova-api-0" if "jsonpath={.items[*].metadata.name}" in words else f"said {words[0]} {words[1]}"


def test_logs_and_resources_of_a_cloud_are_kept(tmp_path: Path) -> None:
    kept = evidence.keep(cast("Kubernetes", _Cluster()), "openstack", "test_a[b/c]", tmp_path)
    assert kept == tmp_path / "test_a[b-c]"
    found = {path.name for path in kept.iterdir()}
    assert {"openstack-nova-api-0.log", "openstack-pods.txt", "resources.yaml"} <= found
    assert not [name for name in found if "previous" in name or "events" in name]
