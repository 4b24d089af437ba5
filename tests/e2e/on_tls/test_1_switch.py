"""The minimal cloud is told to encrypt what its services and their users send, while it runs."""

from __future__ import annotations

import json
import time

from tools.cloud import proof
from tools.cloud.session import Cloud, Session
from tools.localcluster.kubernetes import Kubernetes
from tools.localcluster.layout import Cluster

from ..conftest import Report
from ..facts import ready_again
from ..waiting import until
from .capture import capture
from .hops import (
    NAMESPACE,
    SECRETS,
    SERVICES,
    asking,
    encrypted,
    encrypted_only,
    endpoints,
    markers,
    of_ovn,
    plain,
    processes,
    programs,
    renewed,
    required,
    shown,
)


def test_secrets_are_readable_in_plain_traffic(
    cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report
) -> None:
    """So that finding nothing later means something."""
    with capture(Cluster(), markers(cluster)) as taken:
        stood[0].prove(stood[1])
    report.add(tls_plain_markers=taken.found, tls_plain_dropped=taken.dropped)
    assert {"a token", "a request with a token", "SQL", "AMQP", "OVSDB"} <= taken.found.keys()
    assert {"keystone-admin/password", "nova-credentials/messaging"} <= taken.found.keys()


def told_of(cluster: Kubernetes, cloud: Cloud, **tls: bool) -> None:
    patch = json.dumps({"spec": {"tls": tls}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)


def test_a_cloud_that_runs_is_told_to_encrypt(
    cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report
) -> None:
    """Servers first, clients after them; then a plain connection is answered, and not needed by anybody."""
    cloud = stood[1]
    started = time.monotonic()
    with asking(cluster) as told:
        told_of(cluster, cloud, enabled=True, required=False)
        until("an encrypted catalog", lambda: encrypted_only(endpoints(cluster)), 420, 5)
        ready_again(cluster, cloud, 420)
    report.add(tls_switch_seconds=round(time.monotonic() - started, 1))
    report.add(tls_switch_longest_silence_seconds=round(told.silence, 1))
    report.add(tls_switch_failed_requests=len(told.failed), tls_switch_answered_requests=told.answered)
    assert told.answered > 10
    assert required(cluster) == set()
    before = plain(cluster)
    stood[0].prove(cloud)
    assert plain(cluster) == before, "somebody came without TLS"
    assert len(set(encrypted(cluster))) == 1, "all connections to the broker are encrypted"
    assert encrypted(cluster)[0] > 5


def test_plain_connections_are_refused_once_tls_is_required(
    cluster: Kubernetes, stood: tuple[Session, Cloud], report: Report
) -> None:
    cloud = stood[1]
    started = time.monotonic()
    with asking(cluster) as told:
        told_of(cluster, cloud, required=True)
        until("who comes without to be refused", lambda: required(cluster) == set(SERVICES), 420, 2)
        ready_again(cluster, cloud, 420)
    report.add(tls_required_seconds=round(time.monotonic() - started, 1))
    report.add(tls_required_longest_silence_seconds=round(told.silence, 1))
    report.add(tls_required_failed_requests=len(told.failed), tls_required_answered_requests=told.answered)
    server = proof.connect(cluster, NAMESPACE).compute.find_server(proof.NAME, ignore_missing=False)
    assert server.status == "ACTIVE"


def test_new_certificates_are_shown_without_a_restart(cluster: Kubernetes, report: Report) -> None:
    before, pods, running = shown(cluster), processes(cluster), programs()
    with asking(cluster) as told:
        cluster.kubectl("delete", "secret", *SECRETS, "-n", NAMESPACE)
        report.add(tls_renewal_seconds=round(renewed(cluster, before), 1))
    assert told.failed == []
    assert told.answered > 10
    assert processes(cluster) == pods
    assert programs() == running


def test_members_that_are_added_to_ovns_databases_show_certificates(
    cluster: Kubernetes, stood: tuple[Session, Cloud]
) -> None:
    cloud = stood[1]
    patch = json.dumps({"spec": {"ovn": {"replicas": 3}}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    until("six members", lambda: len(_members(cluster)) == 6, 300, 2)
    ready_again(cluster, cloud, 420)
    for number in range(3):
        assert '"OVN_Northbound"' in of_ovn(cluster, "16641", "certified", f"ovn-nb-{number}")


def _members(cluster: Kubernetes) -> list[str]:
    found = cluster.items("pods", "-n", NAMESPACE, "-l", "openstack.k8s.io/kind=ovnnetwork")
    return [name for pod in found if (name := pod["metadata"]["name"]).startswith(("ovn-nb-", "ovn-sb-"))]
