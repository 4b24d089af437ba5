"""What end-to-end tests compare: objects, pods and passwords of a namespace."""

from __future__ import annotations

import re

from tools.cloud import view
from tools.cloud.session import Cloud
from tools.cloud.timeline import KINDS, PLANES
from tools.localcluster.kubernetes import Kubernetes

from .waiting import until

OWNED = "deployments,statefulsets,daemonsets,jobs,services,secrets,poddisruptionbudgets,persistentvolumeclaims"
_STEADY = 6
"""Looks, one a second: statuses that follow each other are written after three."""

MANAGED = "app.kubernetes.io/managed-by=openstack-operator"


def inventory(cluster: Kubernetes, namespace: str, kinds: str = "") -> set[tuple[str, str]]:
    """(kind, name) of everything the operator made in a namespace; digests in names are cut off."""
    listed = kinds or ",".join((OWNED, *(kind for kind in KINDS if kind != PLANES)))
    items = cluster.items(listed, "-n", namespace, "-l", MANAGED)
    return {(i["kind"], re.sub(r"-[0-9a-f]{8}$", "", i["metadata"]["name"])) for i in items}


def passwords(cluster: Kubernetes, namespace: str) -> dict[str, dict[str, str]]:
    """Data of every Secret of generated values by name, still encoded."""
    found = cluster.items("secrets", "-n", namespace, "-l", MANAGED)
    kinds = ("-credentials", "-admin", "-keys")
    return {s["metadata"]["name"]: s["data"] for s in found if s["metadata"]["name"].endswith(kinds)}


def pods(cluster: Kubernetes, namespace: str) -> dict[str, str]:
    """uid of every pod that is to keep running, by name."""
    found = cluster.items("pods", "-n", namespace)
    return {p["metadata"]["name"]: p["metadata"]["uid"] for p in found if p["status"].get("phase") == "Running"}


def ready_again(cluster: Kubernetes, cloud: Cloud, timeout: float = 240) -> None:
    """Waits until the control plane is Ready and stays so for longer than a status may be held back."""
    looks: list[bool] = []

    def steady() -> bool:
        looks.append(view.ready(cluster.get("openstackcontrolplane", cloud.name, "-n", cloud.namespace)))
        return all(looks[-_STEADY:]) and len(looks) >= _STEADY

    until(f"{cloud.name} to be Ready again", steady, timeout, 1)


def sql(cluster: Kubernetes, namespace: str, statement: str) -> str:
    """Return what the first server of MariaDB answers to root, at its socket: a line for each row."""
    program = 'MYSQL_PWD=$(cat /etc/mysql/credentials/root) exec mariadb -u root -S /run/mysqld/mysqld.sock -N -e "$0"'
    return cluster.kubectl("exec", "-n", namespace, "mariadb-server-0", "--", "sh", "-ec", program, statement)
