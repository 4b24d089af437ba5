"""A cloud on Ceph: volumes, clones, backups and moving servers, in the order they are written.

It wants the embedded cluster: two nodes, and this machine as the router of their external network.
"""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from openstack.connection import Connection

from chaos.servers import Guest, guests
from cloud import deploy, proof
from cloud.kubernetes import ROOT, Kubernetes, module
from cloud.proof import until
from cloud.session import SAMPLES, Cloud, Session
from localcluster.target import target

from .ceph import USES, administrator, full, named, others, pools_of, ready, says, service
from .conftest import Report
from .facts import ready_again
from .volumes import (
    NAMESPACE,
    POOLS,
    Disks,
    attach,
    detach,
    images,
    parent,
    pinging,
    rbd,
    storage,
    used,
    volume,
    writing,
)

SAMPLE = SAMPLES / "controlplane_ceph.yaml"
NODES = 2
# One node is the router of the external network; of several, each has a cable to it and to the others.
CABLED = {"tunnelInterface": "eth1", "externalBridge": {"interface": "eth2"}}
MIB = 1024**2

pytestmark = pytest.mark.skipif(
    target().kind != "embedded", reason="servers are reached from the nodes' external network"
)


@pytest.fixture(scope="module")
def stood() -> Iterator[tuple[Session, Cloud]]:
    """A cluster of two nodes in the place of any other, and the cloud of the sample in it, Ready."""
    module("localcluster", "down")
    found = deploy.documents(SAMPLE)
    plane = next(doc for doc in found if doc["kind"] == "OpenStackControlPlane")
    plane["spec"]["ovn"] = {**plane["spec"].get("ovn", {}), **CABLED}
    sample = ROOT / "build" / SAMPLE.name
    sample.parent.mkdir(exist_ok=True)
    sample.write_text(yaml.safe_dump_all(found))
    session = Session.start(sample, NODES)
    yield session, session.converge(sample, timeout=900)
    module("localcluster", "down")


@pytest.fixture
def cluster(stood: tuple[Session, Cloud]) -> Kubernetes:
    return stood[0].cluster


@pytest.fixture
def cloud(stood: tuple[Session, Cloud]) -> Cloud:
    return stood[1]


@pytest.fixture
def conn(cluster: Kubernetes) -> Connection:
    return proof.connect(cluster, NAMESPACE)


@pytest.fixture
def pair(cluster: Kubernetes, conn: Connection) -> list[Guest]:
    """A server on each node, made once."""
    nodes = sorted(node["metadata"]["name"] for node in cluster.items("nodes", "-l", "openstack-compute-node=enabled"))
    return guests(conn, nodes[:NODES])


def raw(cluster: Kubernetes, conn: Connection, tmp_path: Path) -> Any:
    """The guest's image in the form RBD clones, uploaded once. A pod that has the program converts it."""
    images: Any = conn.image
    if found := images.find_image("raw"):
        return found
    source, disk = Path(module("images", "guest").strip().splitlines()[-1]), tmp_path / "guest.raw"
    script = (
        "base64 -d > guest.qcow2; qemu-img convert -O raw guest.qcow2 guest.raw; gzip -c guest.raw | base64; rm guest.*"
    )
    command = ("exec", "-i", "-n", NAMESPACE, "cinder-volume-ceph-0", "--", "sh", "-ec", f"cd /tmp; {script}")
    packed = cluster.kubectl(*command, stdin=base64.b64encode(source.read_bytes()).decode())
    disk.write_bytes(gzip.decompress(base64.b64decode(packed)))
    return images.create_image(
        "raw", filename=str(disk), disk_format="raw", container_format="bare", visibility="public", wait=True
    )


def test_the_backend_tells_how_much_room_it_has(cluster: Kubernetes, cloud: Cloud, report: Report) -> None:
    found = cluster.get("cinder", "cinder", "-n", cloud.namespace)["status"]["backends"]
    assert [backend["status"] for backend in found] == ["Ready"] * len(found)
    assert found
    assert all(backend["availableCapacityGb"] > 0 and backend["volumes"] == 0 for backend in found)
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
    until("the backup to be restored", lambda: _status(conn, restored) == "available", 300, 1)
    report.add(restore_seconds=round(time.monotonic() - started, 1))
    disk = attach(conn, one, restored)
    assert Disks(one).read(disk, 7) == "changed-since"
    detach(conn, one, restored, disk)


def _status(conn: Connection, held: Any) -> str:
    return storage(conn).get_volume(held).status


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
    server = _server(conn, "clone", image_id=found.id)
    disk = f"{server.id}_disk"
    assert parent(cluster, "vms", disk) == f"images/{found.id}@snap"
    report.add(
        volume_from_image_seconds=seconds,
        volume_from_image_used_bytes=taken,
        server_disk_used_bytes=used(cluster, "vms", disk),
        rbd_du=rbd(cluster, "volumes", "du", name),
    )
    conn.compute.delete_server(server)
    conn.compute.wait_for_delete(server, interval=0.5)


def _server(conn: Connection, name: str, **more: Any) -> Any:
    """A server, ACTIVE; what it boots from is in `more`."""
    network, _, group = proof.networks(conn)
    server = conn.compute.create_server(
        name=name,
        flavor_id=proof.flavor(conn).id,
        networks=[{"uuid": network.id}],
        security_groups=[{"name": group.name}],
        **more,
    )
    return conn.compute.wait_for_server(server, interval=0.5, wait=180)


def _guest(conn: Connection, server: Any) -> Guest:
    """The server with a floating IP under which it answers."""
    _, external, _ = proof.networks(conn)
    port = next(iter(conn.network.ports(device_id=server.id)))
    address = proof.floating(conn, external, port)
    found = Guest(server.compute_host or "", server.id, port.fixed_ips[0]["ip_address"], address)
    until(f"the page of {server.name}", lambda: _answers(found), 300)
    return found


def _answers(guest: Guest) -> bool:
    try:
        return bool(guest.boot())
    except OSError:
        return False


def test_a_server_boots_from_a_volume(conn: Connection) -> None:
    boot = storage(conn).find_volume("boot")
    mapping = {"uuid": boot.id, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    server = _server(conn, "from-volume", block_device_mapping=[mapping])
    assert "vda" in Disks(_guest(conn, server)).sizes()
    conn.compute.delete_server(server)
    conn.compute.wait_for_delete(server, interval=0.5)
    until("the volume to be let go", lambda: _status(conn, boot) == "available", 60, 1)


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
    before = cluster.get("cinder", "cinder", "-n", NAMESPACE)["status"]["backends"]
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
    conditions = cluster.get("cinder", "cinder", "-n", NAMESPACE)["status"]["conditions"]
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
    cluster.kubectl("delete", "cephstorage", "outside", "-n", NAMESPACE, "--wait=false")
    ready_again(cluster, cloud)


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("wrong-key", {"key": "AQAAAAAAAAAAABAA" + "A" * 22 + "=="}, "the key of client.cinder is refused"),
        ("no-monitor", {"monitor": "127.0.0.1:3300"}, "the monitors cannot be reached"),
        ("no-pool", {"pool": "nowhere"}, "there is no pool 'nowhere' for client.cinder"),
    ],
)
def test_what_is_wrong_with_a_ceph_of_others_is_said(
    cluster: Kubernetes, cloud: Cloud, name: str, wrong: dict[str, str], said: str
) -> None:
    """The condition says which, and the rest runs on."""
    pools = {"volumes": {"name": wrong.get("pool", "volumes")}}
    others(cluster, name, login=service(cluster, **wrong), pools=pools, manage=False)
    until("the condition", lambda: said in says(cluster, name, "CephConnected"), 120, 1)
    cluster.kubectl("delete", "cephstorage", name, "-n", NAMESPACE, "--wait=false")
    ready_again(cluster, cloud)


def test_what_is_deleted_leaves_the_pools_empty(cluster: Kubernetes, conn: Connection) -> None:
    for server in conn.compute.servers(all_projects=True):
        conn.compute.delete_server(server)
        conn.compute.wait_for_delete(server, interval=0.5)
    for backup in storage(conn).backups():
        storage(conn).delete_backup(backup)
    for snapshot in storage(conn).snapshots():
        storage(conn).delete_snapshot(snapshot)
    until("snapshots to go", lambda: not list(storage(conn).snapshots()), 120, 1)
    for held in storage(conn).volumes():
        storage(conn).delete_volume(held)
    until("volumes and backups to go", lambda: not [*storage(conn).volumes(), *storage(conn).backups()], 180, 1)
    kept: Any = conn.image
    for image in kept.images():
        kept.delete_image(image)
    for pool in POOLS:
        # What was deleted while a clone of it was there goes a little later.
        until(f"pool {pool} to be empty", lambda p=pool: not images(cluster, p), 120, 2)
