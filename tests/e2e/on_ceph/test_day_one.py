"""A cloud on Ceph: volumes, clones, backups and moving servers, in the order they are written.

It wants the embedded cluster: two nodes, and this machine as the router of their external network.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from openstack_operator.kube import amount
from tools.chaos.servers import Guest
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, ours

from .. import documented
from ..conftest import Report
from ..facts import ready_again
from ..waiting import until
from .ceph import administrator, full, named, others, pools_of, ready, remove_pools, says, service
from .servers import answering, booted, raw, removed
from .volumes import (
    NAMESPACE,
    USES,
    Disks,
    attach,
    detach,
    images,
    parent,
    pinging,
    rbd,
    status,
    storage,
    used,
    volume,
    writing,
)

MIB = 1024**2


def test_the_backend_tells_how_much_room_it_has(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    found = cluster.get(ours("cinder"), "cinder", "-n", cloud.namespace)["status"]["backends"]
    assert [backend["status"] for backend in found] == ["Ready"] * len(found)
    assert found
    assert all(amount(backend["availableCapacity"]) > 0 and backend["volumes"] == 0 for backend in found)
    report.add(ceph_apply_to_ready_seconds=cloud.seconds, ceph_backends=found)


def test_a_volume_goes_from_server_to_server_with_what_is_on_it(
    cluster: Kubernetes, conn: Connection, pair: list[Guest]
) -> None:
    one, other = pair
    held = volume(conn, "data")
    assert images(cluster, "volumes") == [f"volume-{held.id}"]
    disk = attach(conn, one, held)
    assert Disks(one).sizes()[disk] == 1024 * MIB
    Disks(one).write(disk, 7, "written-on-one")
    detach(conn, one, held, disk)
    disk = attach(conn, other, held)
    assert Disks(other).read(disk, 7) == "written-on-one"
    detach(conn, other, held, disk)


def test_snapshot_and_clone(cluster: Kubernetes, conn: Connection, pair: list[Guest]) -> None:
    """The clone has what the volume had, and keeps it when the volume changes."""
    one = pair[0]
    held = storage(conn).find_volume("data")
    taken = storage(conn).create_snapshot(name="data", volume_id=held.id)
    storage(conn).wait_for_status(taken, "available", failures=["error"], interval=0.5, wait=120)
    disk = attach(conn, one, held)
    Disks(one).write(disk, 7, "changed-since")
    detach(conn, one, held, disk)
    clone = volume(conn, "clone", snapshot_id=taken.id)
    assert parent(cluster, "volumes", f"volume-{clone.id}"), "nothing was copied"
    disk = attach(conn, one, clone)
    assert Disks(one).read(disk, 7) == "written-on-one"
    detach(conn, one, clone, disk)


def test_backup_and_restore(cluster: Kubernetes, conn: Connection, pair: list[Guest], report: Report) -> None:
    one = pair[0]
    held = storage(conn).find_volume("data")
    started = time.monotonic()
    kept = storage(conn).create_backup(name="data", volume_id=held.id)
    kept = storage(conn).wait_for_status(kept, "available", failures=["error"], interval=1, wait=300)
    report.add(backup_seconds=round(time.monotonic() - started, 1))
    assert images(cluster, "backups")
    disk = attach(conn, one, held)
    Disks(one).write(disk, 7, "spoiled")
    detach(conn, one, held, disk)
    started = time.monotonic()
    restored = volume(conn, "restored")
    storage(conn).restore_backup(kept, volume_id=restored.id)
    until("the backup to be restored", lambda: status(conn, restored) == "available", 300, 1)
    report.add(restore_seconds=round(time.monotonic() - started, 1))
    disk = attach(conn, one, restored)
    assert Disks(one).read(disk, 7) == "changed-since"
    detach(conn, one, restored, disk)


def test_the_tutorial_of_a_first_cloud_works_with_volumes(
    cluster: Kubernetes, pair: list[Guest], tmp_path: Path
) -> None:
    """docs/tutorials/first-cloud.md. Here this machine is the router of the external network, and no node."""
    assert pair, "the network of the proof exists"
    script = documented.script(documented.FIRST_CLOUD, {"cloud", "ceph"})
    assert documented.FROM_GATEWAY in script
    output = documented.run(cluster, script.replace(documented.FROM_GATEWAY, "curl"), tmp_path, timeout=900)
    assert "hello" in output, "the volume holds what was written"


def test_an_image_is_booted_from_its_clone(
    cluster: Kubernetes, conn: Connection, tmp_path: Path, report: Report
) -> None:
    """No byte of the image is copied for a volume or for a server's disk."""
    found = raw(cluster, conn, tmp_path)
    assert found.id in images(cluster, "images")
    started = time.monotonic()
    boot = volume(conn, "boot", size=1, image_id=found.id)
    seconds = round(time.monotonic() - started, 1)
    name = f"volume-{boot.id}"
    assert parent(cluster, "volumes", name) == f"images/{found.id}@snap"
    taken = used(cluster, "volumes", name)
    assert taken < 4 * MIB
    server = booted(conn, "clone", image_id=found.id)
    disk = f"{server.id}_disk"
    assert parent(cluster, "vms", disk) == f"images/{found.id}@snap"
    report.add(
        volume_from_image_seconds=seconds,
        volume_from_image_used_bytes=taken,
        server_disk_used_bytes=used(cluster, "vms", disk),
        rbd_du=rbd(cluster, "volumes", "du", name),
    )
    removed(conn, server)


def test_a_server_boots_from_a_volume(conn: Connection) -> None:
    boot = storage(conn).find_volume("boot")
    mapping = {"uuid": boot.id, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    server = booted(conn, "from-volume", block_device_mapping=[mapping])
    assert "vda" in Disks(answering(conn, server)).sizes()
    removed(conn, server)
    until("the volume to be let go", lambda: status(conn, boot) == "available", 60, 1)


def test_a_server_moves_while_it_answers(conn: Connection, pair: list[Guest], report: Report) -> None:
    """Live migration to the other node and back, with a volume attached; what it was writing is on it."""
    one, other = pair
    held = storage(conn).find_volume("clone")
    disk, boot = attach(conn, one, held), one.boot()
    with pinging(one) as gaps, writing(one, disk, 1000) as writer:
        for host in (other.node, one.node):
            conn.compute.live_migrate_server(one.id, host=host, block_migration=False)
            until(f"the server to be on {host}", lambda h=host: _host(conn, one) == h, 300, 1)
    assert one.boot() == boot, "it was never started anew"
    assert writer.acknowledged
    assert writer.lost() == []
    detach(conn, one, held, disk)
    report.add(migration_longest_silence_seconds=round(max(gaps), 1), migration_writes=len(writer.acknowledged))


def _host(conn: Connection, guest: Guest) -> str:
    server = conn.compute.get_server(guest.id)
    return server.compute_host if server.status == "ACTIVE" else ""


@pytest.mark.parametrize(
    ("what", "selector"),
    [("osd", "app.kubernetes.io/component=osd"), ("volume", "app.kubernetes.io/component=volume-ceph")],
)
def test_nothing_acknowledged_is_lost_with_a_pod(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, pair: list[Guest], report: Report, what: str, selector: str
) -> None:
    one = pair[0]
    held = storage(conn).find_volume("clone")
    disk = attach(conn, one, held)
    with writing(one, disk, 4000) as writer:
        until("the first writes", lambda: len(writer.acknowledged) > 3, 60)
        before = _pods(cluster, selector)
        assert before, selector
        cluster.kubectl(
            "delete", "pods", "-n", NAMESPACE, "-l", selector, "--grace-period=0", "--force", "--wait=false"
        )
        until("other pods", lambda: _pods(cluster, selector) and not _pods(cluster, selector) & before, 180, 1)
        ready_again(cluster, cloud)
        written = len(writer.acknowledged)
        until("writes to go on", lambda: len(writer.acknowledged) > written + 3, 120)
    assert writer.lost() == []
    detach(conn, one, held, disk)
    report.add(**{f"{what}_killed_longest_write_seconds": round(writer.longest, 1)})


def _pods(cluster: Kubernetes, selector: str) -> set[str]:
    found = cluster.items("pods", "-n", NAMESPACE, "-l", selector)
    return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


def test_a_backend_with_volumes_does_not_go(cluster: Kubernetes, cloud: Cloud) -> None:
    """Refused in the condition, and everything runs on."""
    before = cluster.get(ours("cinder"), "cinder", "-n", NAMESPACE)["status"]["backends"]
    assert sum(backend["volumes"] for backend in before)
    # Another one takes its place, so that there is something to change.
    shares = [{"name": "files", "type": "nfs", "nfs": {"shares": ["files.invalid:/volumes"]}}]
    wanted = cluster.get("openstackcontrolplane", cloud.name, "-n", NAMESPACE)["spec"]["cinder"].get("backends")
    _backends(cluster, cloud, shares)
    until("the refusal", lambda: "volume" in _refused(cluster), 60, 1)
    assert cluster.exists("statefulset", "cinder-volume-ceph", "-n", NAMESPACE)
    assert not cluster.exists("statefulset", "cinder-volume-files", "-n", NAMESPACE)
    _backends(cluster, cloud, wanted)
    ready_again(cluster, cloud)


def _backends(cluster: Kubernetes, cloud: Cloud, wanted: list[dict[str, Any]] | None) -> None:
    """The cloud's backends are these; None leaves them to storageBackend."""
    patch = json.dumps({"spec": {"cinder": {"backends": wanted}}})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)


def _refused(cluster: Kubernetes) -> str:
    conditions = cluster.get(ours("cinder"), "cinder", "-n", NAMESPACE)["status"]["conditions"]
    found = next(entry for entry in conditions if entry["type"] == "Ready")
    return found["message"] if found["reason"] == "InvalidSpec" else ""


def test_a_full_osd_is_a_condition_that_says_so(cluster: Kubernetes, cloud: Cloud) -> None:
    with full(cluster):
        until("the condition", lambda: "OSD_FULL" in says(cluster, "ceph", "HealthReady"), 120, 1)
    until("the condition to go", lambda: ready(cluster, "ceph"), 120, 1)
    ready_again(cluster, cloud)


def test_a_ceph_of_others_gets_pools_and_clients(cluster: Kubernetes, cloud: Cloud) -> None:
    """The cloud's own Ceph is that of others for a second CephStorage, whose keyring is that of an administrator."""
    others(cluster, "outside", login=administrator(cluster), pools=named("outside-{use}"))
    until("the pools and clients", lambda: ready(cluster, "outside"), 180, 1)
    assert {f"outside-{use}" for use in USES} <= set(pools_of(cluster))
    cluster.kubectl("delete", "cephstorage", "outside", "-n", NAMESPACE, "--timeout=60s")
    # It was never ours, so its pools stayed; of one copy, they would not outlive an OSD.
    remove_pools(cluster, *(f"outside-{use}" for use in USES))
    ready_again(cluster, cloud)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("wrong-key", {"key": "AQAAAAAAAAAAABAA" + "A" * 22 + "=="}, "the key of client.cinder is refused"),
        ("no-monitor", {"monitor": "127.0.0.1:3300"}, "the monitors cannot be reached"),
        ("no-pool", {"pool": "nowhere"}, "the pool 'nowhere' of client.cinder is missing"),
    ],
)
def test_problems_of_an_external_ceph_are_named(
    cluster: Kubernetes, cloud: Cloud, name: str, wrong: dict[str, str], said: str
) -> None:
    """The condition says which, and the rest runs on."""
    pools = {"volumes": {"name": wrong.get("pool", "volumes")}}
    others(cluster, name, login=service(cluster, **wrong), pools=pools, manage=False)
    until("the condition", lambda: said in says(cluster, name, "CephConnected"), 120, 1)
    cluster.kubectl("delete", "cephstorage", name, "-n", NAMESPACE, "--wait=false")
    ready_again(cluster, cloud)
