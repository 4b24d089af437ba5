"""One cloud for all of these tests, which run in the order they are written."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tools.cloud import proof
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import Kubernetes

from ..conftest import stands
from ..waiting import until
from .expectations import excluding
from .runs import TIMEOUT_MINUTES

WEB = "tempest-web"
"""A web server in the cluster, whose image Glance fetches."""
IMAGE = "tiny.qcow2"


def tempest(namespace: str) -> dict[str, Any]:
    """The fields of a Tempest that runs when it is told to, and tests all there is."""
    return {
        "enabled": True,
        "tests": {
            "includeRegex": "nothing-yet",
            "excludeRegex": excluding(),
            "timeout": f"{TIMEOUT_MINUTES}m",
            "image": proof.NAME,
            "network": "public",
        },
        "config": {
            # The small guest has no SSH.
            "validation": {"run_validation": False},
            # OVN makes a load balancer in a second or two. Not build_interval: with less of it, tests that make several
            # changes in one request see only the first.
            "load_balancer": {"lb_build_interval": 2, "check_interval": 2},
            "image": {"http_qcow2_image": f"http://{WEB}.{namespace}.svc.cluster.local/{IMAGE}"},
        },
    }


def choose(spec: dict[str, Any]) -> None:
    """Have a Tempest, volumes, the services of its plug-ins, and a Glance that fetches images from the web: by default
    it does not, and the tests of it would be skipped.
    """
    spec["tempest"] = tempest("openstack")
    spec["ceph"] = {"enabled": True}
    spec["cinder"] = {"enabled": True}
    add_services(spec)


def add_services(spec: dict[str, Any]) -> None:
    """Have the services of Tempest's plug-ins, and a Glance that fetches images from the web."""
    for service in ("barbican", "designate", "heat", "octavia"):
        spec[service] = {"enabled": True}
    options = spec.setdefault("glance", {}).setdefault("config", {}).setdefault("DEFAULT", {})
    options["enabled_import_methods"] = "[glance-direct,web-download]"


@pytest.fixture(scope="package")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud and some services in a cluster of its own, Ready, with what tests need: an image, a flavor and
    a larger one, an external network, and a web server.
    """
    with stands(MINIMAL, choose) as (session, cloud):
        furnish(session.cluster, cloud.namespace)
        yield session, cloud


def furnish(cluster: Kubernetes, namespace: str) -> None:
    """The cloud has what Tempest takes for granted."""
    conn = proof.connect(cluster, namespace)
    proof.image(conn)
    proof.flavor(conn)
    proof.networks(conn)
    if not conn.compute.find_flavor("m1.micro"):
        conn.compute.create_flavor(name="m1.micro", ram=192, vcpus=1, disk=1)
    _serve(cluster, namespace)


def _serve(cluster: Kubernetes, namespace: str) -> None:
    """The web server runs. Glance fetches from port 80 alone, and asks DNS for whole names alone."""
    client = cluster.get("deployment", "keystoneclient", "-n", namespace)
    image = client["spec"]["template"]["spec"]["containers"][0]["image"]
    meta = {"name": WEB, "namespace": namespace, "labels": {"app": WEB}}
    command = ["python3", "-m", "http.server", "--directory", "/srv", "8080"]
    container = {
        "name": "web",
        "image": image,
        "command": command,
        "volumeMounts": [{"name": "images", "mountPath": "/srv"}],
    }
    pod = {"containers": [container], "volumes": [{"name": "images", "configMap": {"name": WEB}}]}
    ports = [{"port": 80, "targetPort": 8080}]
    cluster.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "binaryData": {IMAGE: _qcow2()}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod},
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {"app": WEB}, "ports": ports}},
    )
    until(
        "a web server",
        lambda: cluster.get("pod", WEB, "-n", namespace)["status"].get("phase") == "Running",
        120,
    )


def _qcow2() -> str:
    """An empty disk of 1 MiB in QEMU's format, version 2, encoded: a header, and clusters of 64 KiB for its tables."""
    cluster = 1 << 16
    sizes = (2, 0, 0, 16, 1 << 20, 0, 1, 2 * cluster, cluster, 1, 0, 0)
    header = b"QFI\xfb" + struct.pack(">IQIIQIIQQIIQ", *sizes)
    return base64.b64encode(header.ljust(3 * cluster, b"\0")).decode()
