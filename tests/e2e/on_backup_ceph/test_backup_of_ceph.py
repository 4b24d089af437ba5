"""Images, volumes, snapshots and disks of servers in a Ceph that is lost with the cloud, made again from a bucket, with
users, networks, a server, a stack and a secret.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from pathlib import Path
from typing import Any

from keystoneauth1.identity.v3 import Password
from keystoneauth1.session import Session
from openstack.connection import Connection

from tools.chaos.servers import Guest, only_guest
from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..facts import passwords
from ..on_backup.objects import Objects, described, differing, digest, of_servers, of_services
from ..on_backup.test_backup import completed, remove, repository, resource, secrets, upload
from ..on_ceph.volumes import Disks, attach, detach, images, rbd, status, storage, volume
from ..on_services.stacks import Stack, network
from ..on_services.test_barbican import Secrets
from ..s3 import S3Server
from ..waiting import until

BACKUP, LATER_BACKUP, RESTORE = "monday", "tuesday", "after-the-fire"
BLOCK = 7
PAYLOAD = "a secret é世"
STACK, LENGTH = "restored", 20
ORPHAN = "volume-5a0f7c52-8e0b-4c53-9a25-6d1f0c8a7e11"
"""An RBD image of which Cinder has no row."""
POOLS = ("images", "vms", "volumes")
_before: dict[str, Any] = {}


def rows(status_: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"].removeprefix("ceph-"): each for each in status_["pools"]}


def names(cluster: Kubernetes) -> dict[str, list[str]]:
    return {pool: sorted(images(cluster, pool)) for pool in POOLS}


def objects(conn: Connection) -> Objects:
    return {
        **described(conn),
        **of_services(conn, "key_manager", "orchestration", "block_storage"),
        **of_servers(conn),
    }


def test_pools_are_backed_up_while_they_are_used(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, s3: S3Server, report: Report, tmp_path: Path
) -> None:
    guest = only_guest(cluster, cloud.namespace)
    data = volume(conn, "data")
    disk = attach(conn, guest, data)
    Disks(guest).write(disk, BLOCK, "before-the-snapshot")
    taken = storage(conn).create_snapshot(name="data", volume_id=data.id, force=True)
    storage(conn).wait_for_status(taken, "available", failures=["error"], interval=0.5, wait=120)
    Disks(guest).write(disk, BLOCK, "after-the-snapshot")
    _before["image"] = upload(conn, "random", tmp_path).id
    _before["digest"] = hashlib.sha256((tmp_path / "random").read_bytes()).hexdigest()
    clone = volume(conn, "clone", image_id=_before["image"])
    _before.update(guest=guest, disk=disk, data=data.id, snapshot=taken.id, clone=clone.id)
    rbd(cluster, "volumes", "create", ORPHAN, "--size", "8")
    lost = volume(conn, "lost")
    rbd(cluster, "volumes", "rm", f"volume-{lost.id}")
    _before.update(names=names(cluster), lost=lost.id)
    api: Any = conn
    project = api.identity.create_project(name="before")
    api.identity.create_user(name="before", password="as before", default_project_id=project.id)
    stack = Stack(conn, STACK, network(LENGTH))
    assert stack.reaches("CREATE_COMPLETE")
    _before.update(
        secret=Secrets(conn).store("restored", PAYLOAD),
        outputs=stack.outputs,
        passwords=passwords(cluster, cloud.namespace),
    )
    _before["objects"] = objects(conn)
    cluster.apply(*secrets(s3, cloud.namespace))
    spec = {
        "repository": repository(s3),
        "include": {"volumes": True, "disks": True, "incremental": True},
        "verify": True,
    }
    cluster.apply(resource("OpenStackBackup", BACKUP, cloud.namespace, spec))
    found = completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 600)
    report.add(backup_of_ceph=found)
    # The guest's image, too.
    counts = {use: row["images"] for use, row in rows(found).items()}
    assert counts == {use: len(entries) for use, entries in _before["names"].items()}
    found = completed(cluster, ours("openstackbackup"), BACKUP, cloud.namespace, 300, "verified")
    report.add(verified_ceph=found["restoreDuration"])
    assert names(cluster) == _before["names"]
    [_before["end"]] = ends(cluster)


def ends(cluster: Kubernetes) -> list[str]:
    """The snapshots of backups on the volume, from which the next one reads what changed."""
    listed = json.loads(rbd(cluster, "volumes", "snap", "ls", f"volume-{_before['data']}", "--format", "json"))
    return [each["name"] for each in listed if each["name"].startswith("backup.")]


def test_a_second_backup_stores_what_changed(cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report) -> None:
    Disks(_before["guest"]).write(_before["disk"], BLOCK, "the-last")
    spec = {"repository": repository(s3), "include": {"volumes": True, "disks": True, "incremental": True}}
    cluster.apply(resource("OpenStackBackup", LATER_BACKUP, cloud.namespace, spec))
    found = completed(cluster, ours("openstackbackup"), LATER_BACKUP, cloud.namespace, 600)
    report.add(second_backup_of_ceph=found)
    [end] = ends(cluster)
    assert end != _before["end"]
    assert int(rows(found)["images"]["stored"].removesuffix("Mi")) <= 1


def test_the_cloud_and_its_ceph_are_made_again(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, s3: S3Server, report: Report
) -> None:
    # Servers run on without their cloud, with a disk of a Ceph that is no more.
    api: Any = conn
    api.compute.stop_server(_before["guest"].id)
    until("the server to stop", lambda: api.compute.get_server(_before["guest"].id).status == "SHUTOFF", 120, 1)
    remove(cluster, cloud.namespace)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
    cluster.apply(*secrets(s3, cloud.namespace))
    began = time.monotonic()
    spec = {"repository": repository(s3), "backup": LATER_BACKUP}
    cluster.apply(resource("OpenStackRestore", RESTORE, cloud.namespace, spec))
    found = completed(cluster, ours("openstackrestore"), RESTORE, cloud.namespace, 900)
    report.add(restore_of_ceph=found, restore_seconds=time.monotonic() - began, new_cloud_seconds=cloud.seconds)
    restored = {use: (row["images"], row["existed"]) for use, row in rows(found).items()}
    assert restored == {use: (len(entries), 0) for use, entries in _before["names"].items()}
    assert names(cluster) == _before["names"]
    assert not ends(cluster)
    volumes = rows(found)["volumes"]
    orphan, lost = volumes["withoutRow"], volumes["withoutData"]
    assert (orphan["count"], orphan["images"]) == (1, [ORPHAN])
    assert (lost["count"], lost["command"].split()[-1]) == (1, _before["lost"])
    _before["removal"] = orphan["command"]


def test_the_apis_tell_what_they_told_before(conn: Connection) -> None:
    now = objects(conn)
    assert now["servers"]
    assert not differing(now, _before["objects"])
    assert digest(now) == digest(_before["objects"])


def test_users_log_in_with_their_old_passwords(cluster: Kubernetes, cloud: Cloud, conn: Connection) -> None:
    now = passwords(cluster, cloud.namespace)
    assert now["keystone-admin"] == _before["passwords"]["keystone-admin"]
    before = Password(conn.config.auth["auth_url"], username="before", password="as before", user_domain_id="default")
    assert Session(auth=before, verify=conn.session.verify).get_token()


def test_a_secret_comes_back_byte_for_byte(conn: Connection) -> None:
    assert Secrets(conn).read(_before["secret"]) == PAYLOAD


def test_a_stack_is_changed_and_deleted(conn: Connection) -> None:
    stack = Stack(conn, STACK)
    assert stack.outputs == _before["outputs"]
    stack.update(network(LENGTH + 4))
    assert stack.reaches("UPDATE_COMPLETE")
    stack.delete()


def test_commands_of_the_report_remove_what_does_not_fit(cluster: Kubernetes, conn: Connection) -> None:
    program, *words = shlex.split(_before["removal"])
    assert program == "kubectl"
    cluster.kubectl(*words)
    assert ORPHAN not in images(cluster, "volumes")
    storage(conn).delete_volume(_before["lost"])
    until("the volume to go", lambda: _before["lost"] not in {each.id for each in storage(conn).volumes()}, 120, 1)


def test_an_image_has_its_data(cluster: Kubernetes, cloud: Cloud, tmp_path: Path) -> None:
    api: Any = proof.connect(cluster, cloud.namespace)
    api.image.download_image(_before["image"], output=str(tmp_path / "image"))
    assert hashlib.sha256((tmp_path / "image").read_bytes()).hexdigest() == _before["digest"]


def test_the_server_of_before_boots_from_its_disk(cluster: Kubernetes, cloud: Cloud) -> None:
    conn = proof.connect(cluster, cloud.namespace)
    guest: Guest = _before["guest"]
    conn.compute.reboot_server(guest.id, reboot_type="HARD")

    def answers() -> bool:
        try:
            return bool(guest.boot())
        except OSError:
            return False

    until("the server to answer at its floating IP", answers, 300, 1)
    # Its volume was attached when the backup was made.
    until("its volume to be there", lambda: _before["disk"] in Disks(guest).sizes(), 60, 1)
    assert Disks(guest).read(_before["disk"], BLOCK) == "the-last"


def test_volumes_and_snapshots_can_be_used(cluster: Kubernetes, cloud: Cloud) -> None:
    conn = proof.connect(cluster, cloud.namespace)
    guest: Guest = _before["guest"]
    from_snapshot = volume(conn, "from-snapshot", snapshot_id=_before["snapshot"])
    disk = attach(conn, guest, from_snapshot)
    assert Disks(guest).read(disk, BLOCK) == "before-the-snapshot"
    detach(conn, guest, from_snapshot, disk)
    # A clone of an image has its data without the image.
    api: Any = conn
    assert status(conn, storage(conn).get_volume(_before["clone"])) == "available"
    boots = api.compute.get_server(guest.id)
    assert boots.status == "ACTIVE"
    detach(conn, guest, storage(conn).get_volume(_before["data"]), _before["disk"])
    for held in (from_snapshot.id, _before["clone"]):
        storage(conn).delete_volume(held)
    storage(conn).delete_snapshot(_before["snapshot"])
    until("the snapshot to go", lambda: not list(storage(conn).snapshots()), 120, 1)
    storage(conn).delete_volume(_before["data"])
    api.image.delete_image(_before["image"])
    until("the pool to be empty", lambda: not images(cluster, "volumes"), 180, 2)
