"""What a cloud says when a test fails: it is gone when somebody asks why."""

from __future__ import annotations

from pathlib import Path

from tools.cloud import deploy
from tools.localcluster.kubernetes import ROOT, KubeError, Kubernetes

FOLDER = ROOT / "build" / "failures"
_LINES = "4000"
"""Of each container's log, from its end."""


def keep(cluster: Kubernetes, namespace: str, test: str, folder: Path = FOLDER) -> Path:
    """Logs of all containers, also of those that ended before, Events, and every resource with its status, in a folder
    of the test's name. What cannot be had is left out.
    """
    target = folder / test.replace("/", "-")
    target.mkdir(parents=True, exist_ok=True)
    for space in (namespace, deploy.OPERATOR_NAMESPACE):
        _write(cluster, target / f"{space}-events.txt", "get", "events", "-n", space, "--sort-by=.lastTimestamp")
        _write(cluster, target / f"{space}-pods.txt", "get", "pods", "-n", space, "-o", "wide")
        for name in _names(cluster, space):
            for before in ("", "-previous"):
                file = target / f"{space}-{name}{before}.log"
                flags = ("--all-containers", "--prefix", f"--tail={_LINES}", *(["--previous"] if before else []))
                _write(cluster, file, "logs", "-n", space, name, *flags)
    _write(cluster, target / "resources.yaml", "get", "openstack", "-n", namespace, "-o", "yaml")
    return target


def _names(cluster: Kubernetes, namespace: str) -> list[str]:
    try:
        return cluster.kubectl("get", "pods", "-n", namespace, "-o", "jsonpath={.items[*].metadata.name}").split()
    except KubeError:
        return []


def _write(cluster: Kubernetes, file: Path, *command: str) -> None:
    try:
        if text := cluster.kubectl(*command, timeout=30):
            file.write_text(text, encoding="utf-8")
    except KubeError:
        return
