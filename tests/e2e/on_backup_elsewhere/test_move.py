"""A cloud moves to another cluster, by the steps of docs/how-to/back-up-and-restore.md, once the first one is gone with
all of its disks, its Secrets and its own authorities.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from tools.cloud import proof
from tools.cloud.session import MINIMAL, Cloud, Session
from tools.localcluster.kubernetes import Kubernetes, module, ours
from tools.localcluster.layout import Cluster
from tools.localcluster.target import target

from ..conftest import Report, stays
from ..facts import passwords
from ..on_backup.conftest import bucket_server
from ..on_backup.objects import described, differing
from ..on_backup.test_backup import repository, resource, secrets, upload
from ..s3 import S3Server, host_of

SCHEDULE, BACKUP = "nightly", "the-last"
_before: dict[str, Any] = {}


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """The minimal cloud, Ready."""
    if target().kind != "embedded":
        pytest.skip("the cluster is deleted, and another one started")
    module("tools.localcluster", "down")
    try:
        with stays(MINIMAL) as made:
            yield made
    finally:
        module("tools.localcluster", "down")


@pytest.fixture(scope="module")
def s3(stood: tuple[Session, Cloud], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that checks signatures, outside of both clusters, at an address that nodes of both reach."""
    del stood
    with bucket_server(tmp_path_factory.mktemp("s3") / "server", 1024) as server:
        yield server


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """File for the manifest of the schedule, which its user takes along."""
    return tmp_path_factory.mktemp("manifests") / "schedule.yaml"


def operator(*words: str) -> subprocess.Popen[str]:
    """Return the command openstack-operator, which runs, its output in one pipe."""
    command = [str(Path(sys.executable).with_name("openstack-operator")), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def output_of(process: subprocess.Popen[str], timeout: float = 900) -> str:
    """Return what a command prints until it ends. Raises AssertionError with it if the command fails."""
    output, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0, output[-4000:]
    return output


def identity(cluster: Kubernetes) -> str:
    """Return the identity of a cluster, as the field has it: that of its namespace kube-system."""
    return str(cluster.get("namespace", "kube-system")["metadata"]["uid"])


def on_node(cluster: Kubernetes, cloud: Cloud, *command: str) -> str:
    """Return what a command prints that sees the folder of instances of the cloud's only node."""
    label = "app.kubernetes.io/component=libvirt"
    [pod] = cluster.items("pods", "-n", cloud.namespace, "-l", label)
    return cluster.kubectl("exec", "-n", cloud.namespace, pod["metadata"]["name"], "-c", "main", "--", *command)


def answers(cluster: Kubernetes, cloud: Cloud, address: str) -> str:
    """Return what the server with the floating IP says by HTTP, as soon as it does."""
    host = proof.ExternalHost(cluster, cloud.namespace)
    return proof.until(
        f"HTTP from {address}", lambda: host.run("curl", "-sS", "-m3", f"http://{address}/"), timeout=180
    ).strip()


def test_the_last_backup_is_made_and_verified(
    stood: tuple[Session, Cloud], conn: Connection, s3: S3Server, manifest: Path, tmp_path: Path
) -> None:
    api: Any = conn
    session, cloud = stood
    cluster = session.cluster
    project = api.identity.create_project(name="before")
    api.identity.create_user(name="before", password="as before", default_project_id=project.id)
    _before["image"] = upload(conn, "random", tmp_path).id
    _before["data"] = hashlib.sha256((tmp_path / "random").read_bytes()).hexdigest()
    _before["server"] = session.prove(cloud)
    [_before["hypervisor"]] = [each.id for each in api.compute.hypervisors()]
    cluster.apply(*secrets(s3, cloud.namespace))
    spec = {"repository": repository(s3), "schedule": "0 1 * * *", "verify": True, "passwordKeptOutside": True}
    cluster.apply(resource("OpenStackBackupSchedule", SCHEDULE, cloud.namespace, spec))
    manifest.write_text(
        cluster.kubectl("get", ours("openstackbackupschedule"), SCHEDULE, "-n", cloud.namespace, "-o", "yaml")
    )
    _before["objects"] = described(conn)
    _before["passwords"] = passwords(cluster, cloud.namespace)
    _before["cluster"] = identity(cluster)
    suspended = '{"spec": {"suspend": true}}'
    kind = ours("openstackbackupschedule")
    cluster.kubectl("patch", kind, SCHEDULE, "-n", cloud.namespace, "--type=merge", "-p", suspended)
    output_of(operator("backup", "run", BACKUP, "--schedule", SCHEDULE, "--verify", "--wait", "-n", cloud.namespace))


def test_the_cloud_is_made_again_in_another_cluster(
    stood: tuple[Session, Cloud], s3: S3Server, manifest: Path, report: Report
) -> None:
    session, cloud = stood
    module("tools.localcluster", "down")
    new = Session.start(MINIMAL)
    assert new.cluster == session.cluster, "the fixtures of this module ask another cluster"
    assert identity(new.cluster) != _before["cluster"]
    assert host_of(Cluster()) == s3.address
    assert new.cluster.items(ours("openstackcontrolplane"), "-A") == []
    new.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
    new.cluster.apply(*secrets(s3, cloud.namespace))
    began = time.monotonic()
    words = "backup", "restore", "--backup", BACKUP, "-f", str(manifest), "--wait", "-n", cloud.namespace
    with operator(*words) as restore:
        try:
            say_that_the_disk_is_new(new.cluster, cloud, report)
            print(output_of(restore))
        finally:
            restore.terminate()
    report.add(move_restore_seconds=round(time.monotonic() - began, 1), move_new_cloud_seconds=cloud.seconds)


def say_that_the_disk_is_new(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    """Do what the condition of Nova says, once it does. Raises KubeError if it does not."""
    began = time.monotonic()
    server = _before["server"]["server"]
    said = f"the node lacks /var/lib/nova/compute_id, and Nova has servers there: 1 ({server})"

    def message() -> str:
        novas = cluster.items(ours("nova"), "-n", cloud.namespace)
        conditions = [each for nova in novas for each in nova.get("status", {}).get("conditions", ())]
        return " ".join(each["message"] for each in conditions if each["status"] != "True")

    text = proof.until(f"a condition with: {said}", lambda: message() if said in message() else None, timeout=600)
    assert "`touch /var/lib/nova/disk-is-new` on the node" in text
    report.add(move_condition_seconds=round(time.monotonic() - began, 1))
    on_node(cluster, cloud, "touch", "/var/lib/nova/disk-is-new")


def test_users_log_in_with_their_old_passwords(cluster: Kubernetes, cloud: Cloud, conn: Connection) -> None:
    assert passwords(cluster, cloud.namespace)["keystone-admin"] == _before["passwords"]["keystone-admin"]
    api: Any = conn
    assert api.identity.find_user("before")


def test_the_apis_tell_what_they_told_before(conn: Connection) -> None:
    assert not differing(described(conn), _before["objects"])


def test_images_have_their_data(conn: Connection, tmp_path: Path) -> None:
    api: Any = conn
    path = tmp_path / "image"
    api.image.download_image(_before["image"], output=str(path))
    assert hashlib.sha256(path.read_bytes()).hexdigest() == _before["data"]


def test_the_schedule_is_there_and_waits_for_its_user(cluster: Kubernetes, cloud: Cloud) -> None:
    live = cluster.get(ours("openstackbackupschedule"), SCHEDULE, "-n", cloud.namespace)
    assert live["spec"]["suspend"] is True


def test_the_node_has_its_identity(cluster: Kubernetes, cloud: Cloud, conn: Connection, report: Report) -> None:
    api: Any = conn
    assert [(each.id, each.state) for each in api.compute.hypervisors()] == [(_before["hypervisor"], "up")]
    assert on_node(cluster, cloud, "cat", "/var/lib/nova/compute_id") == _before["hypervisor"]
    server = api.compute.get_server(_before["server"]["server"])
    report.add(move_server_without_disk=f"{server.status} {server.vm_state} {server.power_state}")


def test_a_server_without_its_disk_is_rebuilt(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, report: Report
) -> None:
    api: Any = conn
    server = api.compute.get_server(_before["server"]["server"])
    api.compute.rebuild_server(server, image=server.image.id)
    rebuilt = api.compute.wait_for_server(server, interval=0.5, wait=180)
    report.add(move_rebuilt=rebuilt.status)
    if rebuilt.vm_state == "stopped":
        api.compute.start_server(rebuilt)
    assert answers(cluster, cloud, _before["server"]["floating_ip"])


def test_a_server_boots_in_the_new_cluster(stood: tuple[Session, Cloud], report: Report) -> None:
    session, cloud = stood
    facts = session.prove(cloud)
    report.add(proof_after_move=facts)
    assert facts["reply"]
