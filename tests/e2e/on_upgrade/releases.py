"""Which release each program of a cloud is of, asked in its container."""

from __future__ import annotations

import contextlib

from cloud.kubernetes import CloudError, Kubernetes
from cloud.session import Cloud

OLD, NEW = "2025.1", "2026.1"
PACKAGES = {
    "keystone-api": "keystone",
    "cinder-api": "cinder",
    "cinder-backup": "cinder",
    "cinder-scheduler": "cinder",
    "cinder-volume": "cinder",
    "glance-api": "glance",
    "placement-api": "openstack-placement",
    "neutron-api": "neutron",
    "nova-api": "nova",
    "nova-conductor": "nova",
    "nova-scheduler": "nova",
    "nova-cell1-compute": "nova",
}
"""Python package whose version says the release, by the beginning of a pod's name."""
MAJOR = {
    OLD: {"keystone": 27, "glance": 30, "openstack-placement": 13, "neutron": 26, "nova": 31, "cinder": 26},
    "2025.2": {"keystone": 28, "glance": 31, "openstack-placement": 14, "neutron": 27, "nova": 32, "cinder": 27},
    NEW: {"keystone": 29, "glance": 32, "openstack-placement": 15, "neutron": 28, "nova": 33, "cinder": 28},
}
"""https://releases.openstack.org"""


def pods(cluster: Kubernetes, cloud: Cloud) -> dict[str, str]:
    """Return the uid of each pod that runs for good, by name."""
    found = cluster.items("pods", "-n", cloud.namespace, "--field-selector=status.phase=Running")
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def versions(cluster: Kubernetes, cloud: Cloud) -> dict[str, set[int]]:
    """Return the major versions that run, by package, asked in the containers."""
    found: dict[str, set[int]] = {}
    for name in pods(cluster, cloud):
        package = next((package for start, package in PACKAGES.items() if name.startswith(start)), "")
        if package:
            code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
            # A pod may go meanwhile.
            with contextlib.suppress(CloudError):
                text = cluster.kubectl("exec", "-n", cloud.namespace, name, "-c", "main", "--", "python3", "-c", code)
                found.setdefault(package, set()).add(int(text.partition(".")[0]))
    return found


def only(release: str) -> dict[str, set[int]]:
    return {package: {major} for package, major in MAJOR[release].items()}
