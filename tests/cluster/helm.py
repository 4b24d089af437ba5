"""Helm of a test, with the charts of this repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.localcluster import build
from tools.localcluster.commands import run
from tools.operators.build import helm_binary

ROOT = Path(__file__).parent.parent.parent
CHART = ROOT / "deploy" / "charts" / "openstack-operator"
NAME = "openstack-operator"
"""Name of the release and of its namespace."""


class Helm:
    """helm and kubectl of one cluster."""

    def __init__(self, kubeconfig: Path) -> None:
        if not helm_binary().exists():
            pytest.skip("helm is not built: run `make check-manifests`")
        self._helm = (str(helm_binary()), f"--kubeconfig={kubeconfig}", f"--namespace={NAME}")
        self._kubectl = (str(build.binary("kubernetes", "kubectl")), f"--kubeconfig={kubeconfig}")

    def __call__(self, *arguments: str) -> str:
        return run(*self._helm, *arguments)

    def error(self, *arguments: str) -> str:
        """Return what helm says as it fails."""
        result = subprocess.run([*self._helm, *arguments], capture_output=True, text=True, check=False)
        assert result.returncode
        return result.stderr

    def kubectl(self, *arguments: str) -> str:
        return run(*self._kubectl, *arguments)

    def names(self, kinds: str) -> set[str]:
        """Names of the objects of the chart, as kind/name."""
        return set(self.kubectl("get", kinds, "-A", f"-lapp.kubernetes.io/name={NAME}", "-o", "name").split())

    def definitions(self) -> list[str]:
        return self.kubectl("get", "crd", "-o", "name").split()
