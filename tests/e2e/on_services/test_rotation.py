"""Credentials of each service, replaced while users call it: no request fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import ROOT, Kubernetes

from ..facts import ready_again
from ..load import called
from ..waiting import until

ROTATIONS = "credentialrotations.c5c3.io"
TARGETS = {"database": "database", "messaging": "messaging", "serviceAccountPassword": "identity"}
"""Keys of a service's Secret by the targets of rotations; Octavia has no broker."""
LEAST_CALLS = 50


def secrets(conn: Connection) -> object:
    manager: Any = conn.key_manager
    secret = manager.create_secret(name="rotation", payload="of a user", payload_content_type="text/plain")
    return manager.delete_secret(str(secret.secret_ref).rpartition("/")[2])


def zones(conn: Connection) -> object:
    return list(conn.dns.zones())


def stacks(conn: Connection) -> object:
    return list(conn.orchestration.stacks())


def balancers(conn: Connection) -> object:
    return list(conn.load_balancer.load_balancers())


CALLS: dict[str, Callable[[Connection], object]] = {
    "Barbican": secrets,
    "Designate": zones,
    "Heat": stacks,
    "Octavia": balancers,
}
"""A call of each service's API by its kind, which the programs behind the API answer with data from the database."""


@pytest.fixture
def rotates(cluster: Kubernetes) -> None:
    """The kind is installed beside the cloud that runs."""
    cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "deploy" / "crds-c5c3"))


@pytest.mark.usefixtures("rotates")
@pytest.mark.parametrize("kind", CALLS)
def test_new_credentials_fail_no_request(cluster: Kubernetes, cloud: Cloud, conn: Connection, kind: str) -> None:
    name = kind.lower()
    secret = f"{name}-credentials"
    before = cluster.get("secret", secret, "-n", cloud.namespace)["data"]
    targets = [target for target, entry in TARGETS.items() if entry in before]
    with called(lambda: CALLS[kind](conn)) as load:
        cluster.apply(
            *(
                {
                    "apiVersion": "c5c3.io/v1alpha1",
                    "kind": "CredentialRotation",
                    "metadata": {"name": f"{name}-{target.lower()}", "namespace": cloud.namespace},
                    "spec": {"target": target, "serviceRef": {"kind": kind, "name": name}, "reMint": True},
                }
                for target in targets
            )
        )
        for target in targets:

            def rotated(resource: str = f"{name}-{target.lower()}") -> bool:
                status = cluster.get(ROTATIONS, resource, "-n", cloud.namespace).get("status", {})
                return status.get("phase") == "Idle" and bool(status.get("lastRotation"))

            until(f"another {target} of {kind}", rotated, 420, 2)
        ready_again(cluster, cloud)
    after = cluster.get("secret", secret, "-n", cloud.namespace)["data"]
    assert load.failures == []
    assert load.calls > LEAST_CALLS
    assert [target for target in targets if before[TARGETS[target]] == after[TARGETS[target]]] == []
