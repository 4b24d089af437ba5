"""A monitored cloud and a Prometheus that reads it, from nothing: what `python -m tools.dashboards.live` looks at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.e2e.on_providers import prometheus
from tests.e2e.waiting import until
from tools.cloud.deploy import documents
from tools.cloud.session import MINIMAL, Session
from tools.localcluster.kubernetes import ROOT
from tools.operators.catalog import chosen
from tools.operators.install import install

NAMESPACE = "openstack"
GALERA = "galera"
"""Name of a MariaDB with three members, which no service of the cloud uses."""


def start(folder: Path) -> None:
    """Start the minimal cloud with metrics, a server, an etcd, and clusters of MariaDB and Valkey, and a Prometheus
    that reads each of its monitors. The folder gets its manifest.
    """
    sample = folder / "monitored.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    objects = documents(ROOT / MINIMAL)
    valkey = {"enabled": True, "replicas": 3, "sentinel": {"enabled": True}}
    objects[-1]["spec"] |= {"monitoring": {"enabled": True}, "etcd": {"enabled": True}, "valkey": valkey}
    sample.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    session = Session.start(sample)
    cluster = session.cluster
    install(cluster, chosen(["prometheus-operator"]))
    cloud = session.converge(sample)
    cluster.apply(_galera())
    prometheus.start(cluster)
    session.prove(cloud)
    name = f"mariadbs.openstack.k8s.io/{GALERA}"
    cluster.kubectl("-n", NAMESPACE, "wait", name, "--for=condition=Ready", "--timeout=300s", timeout=310)
    until("each monitor to be read", lambda: not prometheus.down(cluster, NAMESPACE), 180, 3)


def _galera() -> dict[str, Any]:
    return {
        "apiVersion": "openstack.k8s.io/v1alpha1",
        "kind": "MariaDB",
        "metadata": {"name": GALERA, "namespace": NAMESPACE},
        "spec": {
            "replicas": 3,
            "storageSize": "1Gi",
            "monitoring": {"enabled": True},
            "tls": {"pkiRef": {"name": "internal"}},
        },
    }
