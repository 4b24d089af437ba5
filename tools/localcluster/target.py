"""The cluster that the project's commands work on."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from . import paths


@dataclass(frozen=True)
class Target:
    """The kind of cluster to use, with the reason for showing to the user."""

    kind: Literal["existing", "kind", "embedded"]
    why: str


def target() -> Target:
    """Return the user's own cluster if `KUBECONFIG` names one, kind if Docker answers, else the embedded cluster.

    A `KUBECONFIG` that names a cluster started from here counts as that cluster, not as the user's own.
    """
    kubeconfig = os.environ.get("KUBECONFIG", "")
    user_files = [part for part in kubeconfig.split(os.pathsep) if part and not _ours(Path(part))]
    if user_files:
        return Target("existing", f"KUBECONFIG names {user_files[0]}")
    if shutil.which("kind") and shutil.which("docker") and _docker_answers():
        return Target("kind", "kind is installed and Docker answers")
    return Target("embedded", "KUBECONFIG names no other cluster, and kind with a running Docker was not found")


def _ours(kubeconfig: Path) -> bool:
    return kubeconfig.absolute().is_relative_to(paths.state())


def _docker_answers() -> bool:
    try:
        result = subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0
