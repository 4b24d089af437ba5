"""Hypervisors say what they lack, follow two Secrets that are carried to them, and run a server that answers."""

from __future__ import annotations

import base64
from typing import Any

from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud, Session
from tools.cloud.view import conditions, ready
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..on_tls.hops import CONSOLE, TRUST, inside
from ..waiting import until
from .conftest import FAR, LABEL

NAMESPACE = "hypervisors"
CARRIED = ("ovn-remote-chassis", "nova-cell1-hypervisors")
OVN = (ours("ovnnetwork"), "ovn", "-n", NAMESPACE)
HYPERVISORS = (ours("hypervisorcluster"), "hypervisors-1", "-n", NAMESPACE)
SELECTION = {"nodeSelector": {LABEL: "yes"}}


def _resource(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def test_their_conditions_name_the_secrets_that_are_missing(cluster: Kubernetes, cloud: Cloud) -> None:
    del cloud
    privileged = {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}
    ovn, hypervisors = CARRIED
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": privileged},
        _resource(
            "OVNNetwork", "ovn", external={"secretRef": {"name": ovn}}, tunnelInterface="eth1", chassis=SELECTION
        ),
        _resource(
            "HypervisorCluster",
            "hypervisors-1",
            controlPlaneSecretRef={"name": hypervisors},
            compute=SELECTION,
            metadataAgent=SELECTION,
        ),
    )
    for resource, secret in ((OVN, ovn), (HYPERVISORS, hypervisors)):
        until(f"{resource[1]} to name {secret}", lambda: secret in _message(cluster, resource), 60)  # noqa: B023


def _message(cluster: Kubernetes, resource: tuple[str, ...]) -> str:
    return conditions(cluster.get(*resource)).get("Ready", {}).get("message", "")


def carry(cluster: Kubernetes, cloud: Cloud) -> None:
    """Copy the Secrets to the namespace of the hypervisors."""
    for name in CARRIED:
        until(f"Secret {name}", lambda: cluster.exists("secret", name, "-n", cloud.namespace), 60)  # noqa: B023
        data = cluster.get("secret", name, "-n", cloud.namespace)["data"]
        metadata = {"name": name, "namespace": NAMESPACE}
        cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


def test_hypervisors_are_ready_once_their_secrets_are_copied(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, report: Report
) -> None:
    carry(cluster, cloud)
    for resource in (OVN, HYPERVISORS):
        until(f"{resource[1]} to be Ready", lambda: ready(cluster.get(*resource)), 180)  # noqa: B023
    until("Nova to know the node", lambda: [each.name for each in conn.compute.hypervisors()] == [FAR], 90)
    agents = {(each.binary, each.host) for each in conn.network.agents() if each.is_alive}
    assert {("ovn-controller", FAR), ("neutron-ovn-metadata-agent", FAR)} <= agents
    report.add(hypervisors=cluster.get(*HYPERVISORS)["status"]["computeNodes"])


def test_hypervisors_use_no_service_name_of_the_control_plane(cluster: Kubernetes, cloud: Cloud) -> None:
    del cloud
    for secret in ("hypervisors-1-cell1-compute-config", "hypervisors-1-metadata-agent-config"):
        data = cluster.get("secret", secret, "-n", NAMESPACE)["data"]
        lines = [line for value in data.values() for line in base64.b64decode(value).decode().splitlines()]
        assert lines
        # Browsers of users open the URL of consoles, not these programs.
        assert [line for line in lines if ".svc" in line and "novncproxy_base_url" not in line] == []


def test_a_server_boots_there_and_answers(
    stood: tuple[Session, Cloud], cluster: Kubernetes, conn: Connection, report: Report
) -> None:
    session, cloud = stood
    facts = session.prove(cloud)
    report.add(**facts)
    assert conn.compute.get_server(facts["server"]).hypervisor_hostname == FAR
    console = conn.compute.create_console(conn.compute.find_server(proof.NAME, ignore_missing=False), "novnc") or {}
    assert inside(cluster, CONSOLE, TRUST, str(console.get("url"))) == "101 RFB"
