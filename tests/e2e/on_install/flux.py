"""The manifests of deploy/flux, for the registry of a test and the versions of Flux that can be built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cloud import deploy
from cloud.kubernetes import ROOT
from cloud.ways import NAME, Release

MANIFESTS = ROOT / "deploy" / "flux"
# The newest controllers whose modules are served know these versions of the kinds; later ones serve v1 and v2.
_SERVED = {
    "source.toolkit.fluxcd.io/v1": "source.toolkit.fluxcd.io/v1beta2",
    "helm.toolkit.fluxcd.io/v2": "helm.toolkit.fluxcd.io/v2beta2",
}
RELEASE = "helmreleases.helm.toolkit.fluxcd.io"

Object = dict[str, Any]


def objects(path: Path, release: Release) -> list[Object]:
    """Return a manifest's objects with the registry, the version and the authority of a release."""
    found = deploy.documents(path)
    for obj in found:
        obj["apiVersion"] = _SERVED.get(obj["apiVersion"], obj["apiVersion"])
        if obj["kind"] == "HelmRepository":
            obj["spec"] |= {"url": f"oci://{release.registry}/charts", "certSecretRef": {"name": "registry-authority"}}
        if obj["kind"] == "HelmRelease":
            obj["spec"]["chart"]["spec"]["version"] = release.version
        if obj["kind"] == "HelmRelease" and obj["metadata"]["name"] == NAME:
            obj["spec"]["values"]["replicaCount"] = release.replicas
    return found


def authority(release: Release) -> Object:
    """Return the Secret by which Flux trusts the registry."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "registry-authority", "namespace": NAME},
        "stringData": {"ca.crt": release.login.authority.read_text()},
    }
