"""From nothing to a cluster that runs the operator, then to clouds in it; shared by `make cloud` and the e2e tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from tools.localcluster.target import target

from ..localcluster import registry_login
from ..localcluster.kubernetes import ROOT, KubeError, Kubernetes, module, started
from . import deploy, own, proof, view, ways
from .stopwatch import Stopwatch

SAMPLES = ROOT / "deploy" / "samples"
MINIMAL = SAMPLES / "controlplane_minimal.yaml"
APPLIED = ROOT / "build" / "cloud.yaml"
"""The manifest of the cloud that was applied last, to be changed and applied again."""


@dataclass(frozen=True)
class Session:
    """A cluster with the operator installed."""

    cluster: Kubernetes
    watch: Stopwatch
    console: Console
    release: str = deploy.RELEASE

    @classmethod
    def start(
        cls, sample: Path = MINIMAL, nodes: int = 1, *, pulls: bool = False, release: str = deploy.RELEASE
    ) -> Session:
        """Start the operator, in the user's own cluster or in one of `nodes` nodes started here, and provide all images
        that `sample` needs in this release: loaded onto them, or with `pulls` from a registry beside the cluster.
        `INSTALL` in the environment names a way to install it from what is pushed there.

        Raises KubeError for `pulls` or `INSTALL` with another than the embedded cluster.
        """
        console, installer = Console(), ways.chosen()
        pulls = pulls or bool(installer)
        if pulls and (chosen := target()).kind != "embedded":
            raise KubeError(
                f"REGISTRY={registry_login.LOCAL} and {ways.VARIABLE}= mean a registry beside the embedded cluster, and"
                f" {chosen.why}. For a cluster"
                f" of your own, set {own.REGISTRY} to a registry of your own. Nothing was done."
            )
        watch = Stopwatch(console)
        images = deploy.images(sample, release)
        if target().kind == "existing":
            cluster = _own_cluster(watch, sample, images)
        else:
            cluster = local_cluster(watch, sample, images, nodes, pulls=pulls)
        replicas, c5c3 = min(nodes, 2), deploy.asks_for_c5c3(sample)
        if installer:
            with watch.step(f"make a release and push it to {cluster.registry}"):
                pushed = ways.publish(cluster, images, replicas=replicas)
            with watch.step(f"install the operator ({installer})"):
                ways.prepare(cluster, pushed)
                ways.INSTALLERS[installer](cluster, pushed, c5c3=c5c3)
        else:
            with watch.step("install the operator"):
                deploy.install(cluster, replicas, c5c3=c5c3, releases=[release])
        return cls(cluster, watch, console, release)

    def converge(
        self, sample: Path, namespace: str | None = None, timeout: float = 600, in_vain: Callable[[], str] = str
    ) -> Cloud:
        """Apply a sample, and wait until its control plane is Ready, showing what happens. Give up as soon as `in_vain`
        says why it will never be.
        """
        began = time.time()
        plane = deploy.control_plane(self.cluster, sample, namespace, self.release, APPLIED)
        meta, expose = plane["metadata"], plane["spec"]["expose"]
        on = f" on {expose['host']}" if expose.get("host") else ""
        self.console.print(f"    APIs are exposed by {expose.get('type', 'ClusterIP')}{on}", highlight=False)
        with self.watch.step(f"apply {meta['namespace']}/{meta['name']} to Ready"):
            seconds = view.wait(self.cluster, meta["namespace"], meta["name"], self.console, timeout, in_vain)
        return Cloud(meta["name"], meta["namespace"], began, round(seconds, 1))

    def prove(self, cloud: Cloud) -> dict[str, Any]:
        """Boot a server through the public APIs, and return facts for the report."""
        return proof.prove(self.cluster, cloud.namespace, self.watch)


def local_cluster(watch: Stopwatch, sample: Path, images: list[str], nodes: int, *, pulls: bool) -> Kubernetes:
    """Build what is missing, start the cluster, and load the images, or push them to a registry beside it."""
    with watch.step("check this machine"):
        module("tools.localcluster", "doctor")
    with watch.step("build Kubernetes (once)"):
        module("tools.localcluster", "build")
    with watch.step("build images (once)"):
        _build(images)
    with watch.step("start Kubernetes"):
        # Where nodes' own interfaces are in the external bridge, the router of that network is this machine.
        cluster = started(nodes, f"{proof.GATEWAY}/24" if deploy.cabled(sample) else "")
    if pulls:
        return _with_registry(watch, cluster, images)
    with watch.step("load images (once)"):
        module("images", "load", *images)
    return cluster


def _with_registry(watch: Stopwatch, cluster: Kubernetes, images: list[str]) -> Kubernetes:
    """Return the cluster with a registry beside it that has the images."""
    with watch.step("start a registry"):
        address = module("tools.localcluster", "registry").strip().splitlines()[-1]
    login, prefix = registry_login.local(), f"{address}/openstack-operator"
    with watch.step(f"push images to {prefix} (once)"):
        module("images", "push", prefix, *images, environment=login.environment())
    return replace(cluster, registry=prefix, login=login)


def _own_cluster(watch: Stopwatch, sample: Path, images: list[str]) -> Kubernetes:
    """Return the user's cluster, which can take the sample, after pushing the images to the registry that the user
    names. Start nothing.
    """
    with watch.step("check your cluster"):
        cluster = own.checked(sample, images)
    with watch.step("build images (once)"):
        _build(images)
    with watch.step(f"push images to {cluster.registry} (once)"):
        module("images", "push", cluster.registry, *images)
    return cluster


def _build(images: list[str]) -> None:
    module("images", "build", *images)
    module("images", "guest")


@dataclass(frozen=True)
class Cloud:
    """A control plane that became Ready."""

    name: str
    namespace: str
    began: float
    """Seconds since the epoch when it was applied."""
    seconds: float
    """From apply to Ready."""
