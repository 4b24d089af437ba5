"""The manifests of deploy/flux, for the registry of a test and the versions of Flux that can be built."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.cloud import deploy
from tools.cloud.ways import NAME, Release
from tools.localcluster.kubernetes import ROOT, Kubernetes
from tools.operators import install
from tools.operators.catalog import BY_NAME

MANIFESTS = ROOT / "deploy" / "flux"
# The newest controllers whose modules are served know these versions of the kinds; later ones serve v1 and v2.
_SERVED = {
    "source.toolkit.fluxcd.io/v1": "source.toolkit.fluxcd.io/v1beta2",
    "helm.toolkit.fluxcd.io/v2": "helm.toolkit.fluxcd.io/v2beta2",
}
RELEASE = "helmreleases.helm.toolkit.fluxcd.io"

Object = dict[str, Any]


def install_flux(cluster: Kubernetes) -> None:
    """Install the controllers. That of sources is in the network of its node: the registry beside the cluster answers
    nodes, and no pods.
    """
    install.install(cluster, [BY_NAME["source-controller"], BY_NAME["helm-controller"]])
    patch = {"spec": {"template": {"spec": {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}}}}
    where = ("-n", "source-system")
    cluster.kubectl(*where, "patch", "deployment/source-controller", "--patch", json.dumps(patch))
    cluster.kubectl(*where, "rollout", "status", "deployment/source-controller", "--timeout=120s", timeout=130)


def objects(path: Path, release: Release) -> list[Object]:
    """Return a manifest's objects with the registry, the version and the authority of a release."""
    found = deploy.documents(path)
    for obj in found:
        obj["apiVersion"] = _SERVED.get(obj["apiVersion"], obj["apiVersion"])
        if obj["kind"] == "HelmRepository":
            obj["spec"] |= {"url": f"oci://{release.registry}/charts", "certSecretRef": {"name": "registry-authority"}}
        if obj["kind"] == "HelmRelease":
            obj["spec"]["chart"]["spec"]["version"] = release.version
            # There is no key: the registry is that of this test alone.
            del obj["spec"]["chart"]["spec"]["verify"]
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
