"""Installation of the operator from a release: by Helm or kustomize."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from openstack_operator import __version__
from tools.operators import build

from ..localcluster import registry_login
from ..localcluster.kubernetes import ROOT, KubeError, Kubernetes, module, run

NAME = "openstack-operator"
"""Name of the namespace, the Deployment and the release of Helm."""
VARIABLE = "INSTALL"
"""Names the way in the environment; without it, the objects of deploy/ are applied."""


class Release(NamedTuple):
    """Files of a release, and the registry that it was pushed to."""

    folder: Path
    registry: str
    login: registry_login.Login
    version: str = __version__
    replicas: int = 1


def publish(cluster: Kubernetes, images: list[str], version: str = __version__, replicas: int = 1) -> Release:
    """Make a release with these images, in the registry of the cluster. Raises KubeError."""
    if cluster.login is None:
        raise KubeError(f"{VARIABLE}= installs from the registry that is started beside the embedded cluster")
    folder = ROOT / "build" / "release-for-tests"
    options = ("--no-sbom", f"--version={version}", f"--output={folder}", "--only", *images)
    module("tools.publish", cluster.registry, *options, environment=cluster.login.environment())
    return Release(folder / version, cluster.registry, cluster.login, version, replicas)


def prepare(cluster: Kubernetes, release: Release) -> None:
    """Create the namespace and the registry's login, which each way needs first."""
    metadata = {"name": NAME, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, release.login.pull_secret(NAME))


def _helm(cluster: Kubernetes, release: Release | None, *arguments: str) -> str:
    """Run Helm against the cluster, with the login of the release if it needs one."""
    # Only commands that pull a chart know the option for the authority.
    login = (f"--registry-config={release.login.file}", f"--ca-file={release.login.authority}") if release else ()
    where = (f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAME}")
    return run(str(build.helm()), *arguments, *where, *login, timeout=300)


def install_chart(cluster: Kubernetes, release: Release, *, c5c3: bool = False) -> None:
    """Install or upgrade the chart, from the registry."""
    chart = (f"oci://{release.registry}/charts/{NAME}", f"--version={release.version}")
    values = {
        "replicaCount": release.replicas,
        "imagePullSecrets[0].name": registry_login.PULL_SECRET,
        "crds.c5c3": str(c5c3).lower(),
    }
    options = [f"--set={name}={value}" for name, value in values.items()]
    _helm(cluster, release, "upgrade", "--install", "--wait", "--timeout=4m", NAME, *chart, *options)


def uninstall_chart(cluster: Kubernetes) -> None:
    """Uninstall the chart; the definitions stay."""
    _helm(cluster, None, "uninstall", "--wait", NAME)


def install_kustomize(cluster: Kubernetes, release: Release, *, c5c3: bool = False) -> None:
    """Apply install.yaml with an overlay that names the login."""
    if c5c3:
        _apply(cluster, release.folder / "kustomize" / "overlays" / "c5c3")
    _apply(cluster, release.folder / "kustomize" / "overlays" / "with-login")
    patch = json.dumps({"spec": {"replicas": release.replicas}})
    cluster.kubectl("-n", NAME, "patch", f"deployment/{NAME}", "--patch", patch)
    await_rollout(cluster)


def _apply(cluster: Kubernetes, folder: Path) -> None:
    # Another way may have applied the same fields before.
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(folder), timeout=240)


def uninstall_kustomize(cluster: Kubernetes, release: Release) -> None:
    """Delete all but the definitions."""
    overlay = release.folder / "kustomize" / "overlays" / "without-definitions"
    cluster.kubectl("delete", "--ignore-not-found", "-k", str(overlay), "--timeout=120s", timeout=150)


def await_rollout(cluster: Kubernetes) -> None:
    """Wait until all pods of the operator run what its Deployment says. Raises KubeError."""
    where = ("-n", NAME, "rollout", "status", f"deployment/{NAME}")
    cluster.kubectl(*where, "--timeout=180s", timeout=190)


INSTALLERS: Mapping[str, Callable[..., None]] = {"chart": install_chart, "kustomize": install_kustomize}
"""The ways that `INSTALL=` names."""


def chosen() -> str:
    """Return the installer that the environment names; empty if it names none. Raises KubeError for another word."""
    installer = os.environ.get(VARIABLE, "")
    if installer and installer not in INSTALLERS:
        raise KubeError(f"{VARIABLE}={installer}: choose {' or '.join(INSTALLERS)}, or leave it out")
    return installer
