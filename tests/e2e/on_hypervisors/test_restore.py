"""The databases of a cloud are deleted and restored, while its hypervisors and their gateway run on elsewhere: users of
a server notice nothing.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.cloud.view import ready
from tools.localcluster.apiserver import ending_with_us
from tools.localcluster.kubernetes import KubeError, Kubernetes, ours

from ..conftest import Report
from ..on_backup.conftest import bucket_server
from ..on_backup.test_backup import completed, remove, repository, resource, secrets
from ..on_backup.test_running_guest import process_of
from ..s3 import S3Server
from ..waiting import server_reaches, until
from .conftest import FAR
from .test_hypervisors import HYPERVISORS, NAMESPACE, OVN, carry

BACKUP, RESTORE = "with-hypervisors-elsewhere", "around-hypervisors"
GATEWAY = "openstack-gateway"
_PERIOD = 0.2
_AFTERWARDS = 30
"""Seconds of pings after the switches follow the restored cloud."""


@pytest.fixture(scope="module")
def s3(stood: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that checks signatures, with an empty bucket."""
    del stood
    with bucket_server(tmp_path_factory.mktemp("s3") / "server", 1024) as server:
        yield server


@contextmanager
def pinged(cluster: Kubernetes, address: str, output: Path) -> Generator[None]:
    """Ping from the gateway, and write what is answered."""
    label = "openstack.k8s.io/kind=ovnnetwork,app.kubernetes.io/component=gateway"
    [pod] = cluster.items("pods", "-n", NAMESPACE, "-l", label)
    inside = ("exec", "-n", NAMESPACE, pod["metadata"]["name"], "-c", "ovs-vswitchd", "--")
    command = [*cluster.command(), *inside, "ping", "-n", "-i", str(_PERIOD), address]
    with output.open("wb") as file, subprocess.Popen(ending_with_us(command), stdout=file) as process:
        try:
            yield
            assert process.poll() is None, "ping ran on"
        finally:
            process.kill()


def silences(output: Path) -> tuple[int, list[int]]:
    """Return how many pings were sent, and how many in a row had no answer each time."""
    answered = sorted({int(number) for number in re.findall(r"icmp_seq=(\d+) ttl", output.read_text())})
    gaps = [later - earlier - 1 for earlier, later in pairwise(answered)]
    return answered[-1] - answered[0] + 1, [gap for gap in gaps if gap]


def test_the_gateway_moves_to_the_hypervisors(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, report: Report
) -> None:
    """Nothing of the network of the server is in the cluster of the control plane then."""
    [plane] = cluster.items(ours("openstackcontrolplane"), "-n", cloud.namespace)
    bridge = {"spec": {"externalBridge": plane["spec"]["ovn"]["externalBridge"]}}
    cluster.kubectl("patch", *OVN, "--type", "merge", "-p", json.dumps(bridge))
    for node in cluster.items("nodes"):
        name = node["metadata"]["name"]
        cluster.kubectl("label", "node", name, f"{GATEWAY}=enabled" if name == FAR else f"{GATEWAY}-", "--overwrite")
    began = time.monotonic()
    address = floating(conn)
    until(f"ping of {address}", lambda: pong(cluster, address), 240)
    report.add(gateway_moved_seconds=round(time.monotonic() - began, 1))


def pong(cluster: Kubernetes, address: str) -> str | None:
    # Its switch comes a moment later.
    with suppress(KubeError):
        return proof.ExternalHost(cluster, NAMESPACE).run("ping", "-c1", "-W1", address)
    return None


def floating(conn: Any) -> str:
    [address] = conn.network.ips()
    return address.floating_ip_address


def test_pings_are_answered_while_the_databases_of_ovn_are_restored(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, s3: S3Server, report: Report, tmp_path: Path
) -> None:
    api: Any = conn
    address, server = floating(conn), api.compute.find_server(proof.NAME).id
    process = process_of(server)
    assert process
    cluster.apply(*secrets(s3, cloud.namespace))
    cluster.apply(resource("OpenStackBackup", BACKUP, cloud.namespace, {"repository": repository(s3)}))
    completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 400)
    output = tmp_path / "pings"
    with pinged(cluster, address, output):
        remove(cluster, cloud.namespace)
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
        cluster.apply(*secrets(s3, cloud.namespace))
        spec = {"repository": repository(s3), "backup": BACKUP}
        cluster.apply(resource("OpenStackRestore", RESTORE, cloud.namespace, spec))
        status = completed(cluster, ours("openstackrestore"), RESTORE, cloud.namespace, 600)
        # The port of the southbound database is another one.
        carry(cluster, cloud)
        restored: Any = proof.connect(cluster, cloud.namespace)
        until("the restored OVN to know the switch", lambda: controlled(restored), 120)
        time.sleep(_AFTERWARDS)
    sent, missed = silences(output)
    report.add(restore_around_hypervisors=status, pings=sent, pings_missed_in_a_row=missed)
    assert process_of(server) == process, "its process is the one of before"
    assert sent > _AFTERWARDS / _PERIOD
    assert not missed


def controlled(api: Any) -> bool:
    agents = {agent.host for agent in api.network.agents() if agent.binary == "ovn-controller" and agent.is_alive}
    return FAR in agents


def test_the_server_is_managed_again(cluster: Kubernetes, cloud: Cloud, conn: Connection) -> None:
    api: Any = conn
    # Those of Nova may have come later.
    carry(cluster, cloud)
    for each in (OVN, HYPERVISORS):
        until(f"{each[1]} to be Ready", lambda: ready(cluster.get(*each)), 180)  # noqa: B023
    up = lambda: [each.name for each in api.compute.hypervisors(details=True) if each.state == "up"]  # noqa: E731
    until("Nova to hear of the node", lambda: up() == [FAR], 180)
    server = api.compute.find_server(proof.NAME)
    assert server.status == "ACTIVE"
    api.compute.stop_server(server)
    server_reaches(api, server.id, "SHUTOFF")
    assert not process_of(server.id)
    api.compute.start_server(server)
    server_reaches(api, server.id, "ACTIVE")
    host, address = proof.ExternalHost(cluster, NAMESPACE), floating(conn)
    until("the server to answer", lambda: host.run("curl", "-sS", "-m3", f"http://{address}/"), 180)
