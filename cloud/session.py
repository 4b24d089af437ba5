"""From nothing to a cluster that runs the operator, then to clouds in it; shared by `make cloud` and the e2e tests."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from . import deploy, proof, view
from .kubernetes import ROOT, Kubernetes, ensure, module
from .stopwatch import Stopwatch

SAMPLES = ROOT / "deploy" / "samples"


@dataclass(frozen=True)
class Session:
    """A cluster with the operator installed."""

    cluster: Kubernetes
    watch: Stopwatch
    console: Console

    @classmethod
    def start(cls) -> Session:
        """Builds what is missing, starts the cluster, loads the images, installs the operator."""
        console = Console()
        watch = Stopwatch(console)
        with watch.step("check this machine"):
            module("localcluster", "doctor")
        with watch.step("build Kubernetes (once)"):
            module("localcluster", "build")
        with watch.step("build images (once)"):
            module("images", "build")
            module("images", "guest")
        with watch.step("start Kubernetes"):
            cluster = ensure()
        with watch.step("load images (once)"):
            module("images", "load")
        with watch.step("install the operator"):
            deploy.install(cluster)
        return cls(cluster, watch, console)

    def converge(self, sample: Path, namespace: str | None = None, timeout: float = 600) -> Cloud:
        """Applies a sample and waits until its control plane is Ready, showing what happens."""
        began = time.time()
        plane = deploy.control_plane(self.cluster, sample, namespace)
        meta = plane["metadata"]
        with self.watch.step(f"apply {meta['namespace']}/{meta['name']} to Ready"):
            seconds = view.wait(self.cluster, meta["namespace"], meta["name"], self.console, timeout)
        return Cloud(meta["name"], meta["namespace"], began, round(seconds, 1))

    def prove(self, cloud: Cloud) -> dict[str, Any]:
        """Boots a server through the public APIs; facts for the report."""
        return proof.prove(self.cluster, cloud.namespace, self.watch)


@dataclass(frozen=True)
class Cloud:
    """A control plane that became Ready."""

    name: str
    namespace: str
    began: float
    """Seconds since the epoch when it was applied."""
    seconds: float
    """From apply to Ready."""
