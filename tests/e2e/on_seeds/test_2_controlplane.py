"""The ControlPlane of the seeds: its servers run by other operators, a Ceph, K-ORC, and an issuer of public names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tools.localcluster.kubernetes import Kubernetes
from tools.operators import issuers

from ..conftest import Report
from ..waiting import until
from .conftest import NAMESPACE, applied, manifest, standing, used

KIND, NAME = "controlplanes.c5c3.io", "production"
OPERATORS = (
    "cert-manager",
    "pebble",
    "mariadb-operator",
    "rabbitmq-cluster-operator",
    "messaging-topology-operator",
    "memcached-operator",
    "k-orc",
)
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def images(folder: Path) -> Path:
    """Return a sample of ours whose images are those that the manifest needs."""
    spec: dict[str, Any] = {"storageBackend": "ceph", **{name: {"enabled": True} for name in ("cinder", "valkey")}}
    path = folder / "images.yaml"
    metadata = {"name": "cloud", "namespace": NAMESPACE}
    sample = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "OpenStackControlPlane", "metadata": metadata}
    path.write_text(yaml.safe_dump({**sample, "spec": spec}), encoding="utf-8")
    return path


def storage(cluster: Kubernetes) -> None:
    """A CephStorage, and the StorageClass `ceph-rbd`. No driver for volumes of Ceph can run here: the class makes
    volumes as the cluster's default one does.
    """
    default = next(each for each in cluster.items("storageclasses") if _DEFAULT in each["metadata"]["annotations"])
    kept = {name: value for name, value in default.items() if name != "metadata"}
    # The provisioner makes volumes of the classes that its configuration names.
    settings = cluster.get("configmap", "local-path-config", "-n", "local-path-storage")
    config = json.loads(settings["data"]["config.json"])
    config["storageClassConfigs"]["ceph-rbd"] = config["storageClassConfigs"][default["metadata"]["name"]]
    patch = json.dumps({"data": {"config.json": json.dumps(config)}})
    cluster.kubectl("patch", "configmap", "local-path-config", "-n", "local-path-storage", "-p", patch)
    cluster.apply({**kept, "metadata": {"name": "ceph-rbd"}})
    metadata = {"name": "ceph", "namespace": NAMESPACE}
    cluster.apply({"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "CephStorage", "metadata": metadata, "spec": {}})


def test_c5c3_cloud_becomes_ready_and_a_server_answers_with_a_volume(report: Report, tmp_path: Path) -> None:
    path = manifest("controlplane.c5c3.io")
    with standing(images(tmp_path), *OPERATORS, c5c3=True) as cluster:
        issuers.ready(cluster, *issuers.public(cluster, "letsencrypt-prod"))
        storage(cluster)
        report.add(seeds_controlplane_ready_seconds=applied(cluster, path, KIND, NAME, 1500))
        made = until("the resources of K-ORC", lambda: cluster.items("projects.openstack.k-orc.cloud", "-n", NAMESPACE))
        facts = used(cluster)
        report.add(seeds_controlplane=facts, seeds_controlplane_projects=[each["metadata"]["name"] for each in made])
        assert facts["reply"]
        assert facts["attached"]
