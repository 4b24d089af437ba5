"""Which release each program of a cloud is of, asked in its container."""

from __future__ import annotations

import contextlib

from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import KubeError, Kubernetes

OLD, NEW = "2025.1", "2026.1"
HEAT = "openstack-heat"
PACKAGES = {
    "keystone-api": "keystone",
    "cinder-api": "cinder",
    "cinder-backup": "cinder",
    "cinder-scheduler": "cinder",
    "cinder-volume": "cinder",
    "glance-api": "glance",
    "heat-api": HEAT,
    "heat-engine": HEAT,
    "placement-api": "openstack-placement",
    "neutron-api": "neutron",
    "nova-api": "nova",
    "nova-conductor": "nova",
    "nova-scheduler": "nova",
    "nova-cell1-compute": "nova",
}
"""Python package whose version says the release, by the beginning of a pod's name."""
MAJOR = {
    release: dict(
        zip(("keystone", "glance", "openstack-placement", "neutron", "nova", "cinder", HEAT), majors, strict=True)
    )
    for release, majors in {
        OLD: (27, 30, 13, 26, 31, 26, 24),
        "2025.2": (28, 31, 14, 27, 32, 27, 25),
        NEW: (29, 32, 15, 28, 33, 28, 26),
    }.items()
}
"""https://releases.openstack.org"""


def pods(cluster: Kubernetes, cloud: Cloud) -> dict[str, str]:
    """Return the uid of each pod that runs for good, by name; without those that are about to end."""
    found = cluster.items("pods", "-n", cloud.namespace, "--field-selector=status.phase=Running")
    metas = [pod["metadata"] for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return {meta["name"]: meta["uid"] for meta in metas}


def versions(cluster: Kubernetes, cloud: Cloud) -> dict[str, set[int]]:
    """Return the major versions that run, by package, asked in the containers."""
    found: dict[str, set[int]] = {}
    for name in pods(cluster, cloud):
        package = next((package for start, package in PACKAGES.items() if name.startswith(start)), "")
        if package:
            code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
            # A pod may go meanwhile.
            with contextlib.suppress(KubeError):
                text = cluster.kubectl("exec", "-n", cloud.namespace, name, "-c", "main", "--", "python3", "-c", code)
                found.setdefault(package, set()).add(int(text.partition(".")[0]))
    return found


def only(release: str, *absent: str) -> dict[str, set[int]]:
    """Return what `versions` returns if all programs are of a release; without the packages that the cloud lacks."""
    return {package: {major} for package, major in MAJOR[release].items() if package not in absent}
