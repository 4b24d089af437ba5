"""What comes after the first day: other keys, more of Ceph, lost disks, more stores, quotas and old rows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection
from openstack.exceptions import HttpException

from tools.chaos.servers import Guest
from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, module

from ..conftest import Report
from ..facts import ready_again
from ..waiting import given_up, image_reaches, server_reaches, until
from . import objects
from .ceph import clean, clients_of, command, quorum, ready, up
from .servers import answering, booted, raw, removed
from .volumes import NAMESPACE, USES, attach, detach, images, parent, status, storage, user_of, volume, writing


def change(cluster: Kubernetes, cloud: Cloud, timeout: float = 420, **spec: Any) -> None:
    """Merges into the cloud's spec, and waits until everything has followed."""
    patch = json.dumps({"spec": spec})
    cluster.kubectl("patch", "openstackcontrolplane", cloud.name, "-n", NAMESPACE, "--type=merge", "-p", patch)
    ready_again(cluster, cloud, timeout)


def test_an_image_in_qcow2_becomes_a_volume(conn: Connection) -> None:
    """Cinder converts what RBD cannot clone, and a server boots from it."""
    boot = volume(conn, "converted", image_id=proof.image(conn).id)
    mapping = {"uuid": boot.id, "source_type": "volume", "destination_type": "volume", "boot_index": 0}
    server = booted(conn, "from-converted", block_device_mapping=[mapping])
    assert answering(conn, server).boot()
    removed(conn, server)
    until("the volume to be let go", lambda: status(conn, boot) == "available", 60, 1)


def test_three_monitors_and_three_osds(cluster: Kubernetes, cloud: Cloud, conn: Connection, pair: list[Guest]) -> None:
    """Grown under a server that writes; then everything is kept twice."""
    one = pair[0]
    held = storage(conn).find_volume("clone")
    disk = attach(conn, one, held)
    with writing(one, disk, 8000) as writer:
        change(cluster, cloud, ceph={"monitors": {"replicas": 3}, "osds": {"replicas": 3}})
        until("three monitors and three OSDs", lambda: quorum(cluster) == 3 and up(cluster) == 3, 120, 2)
        change(cluster, cloud, ceph={"pools": {use: {"size": 2} for use in USES}})
        until("two copies of everything", lambda: clean(cluster) and ready(cluster, "ceph"), 240, 2)
    assert writer.acknowledged
    assert writer.lost() == []
    detach(conn, one, held, disk)


@pytest.mark.parametrize("lost", ["osd-1", "mon-1"])
def test_a_lost_disk_of_ceph(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, pair: list[Guest], report: Report, lost: str
) -> None:
    """It comes back empty, and gets its data from the others."""
    one = pair[0]
    held = storage(conn).find_volume("clone")
    disk = attach(conn, one, held)
    with writing(one, disk, 12000 if lost == "osd-1" else 16000) as writer:
        until("the first writes", lambda: len(writer.acknowledged) > 3, 60)
        cluster.kubectl("delete", "pvc", f"data-ceph-{lost}", "-n", NAMESPACE, "--wait=false")
        cluster.kubectl("delete", "pod", f"ceph-{lost}", "-n", NAMESPACE, "--grace-period=0", "--force")
        started = time.monotonic()
        until("all of Ceph", lambda: quorum(cluster) == 3 and up(cluster) == 3 and clean(cluster), 420, 2)
        seconds = round(time.monotonic() - started)
        ready_again(cluster, cloud)
    assert writer.lost() == []
    detach(conn, one, held, disk)
    report.add(
        **{
            f"{lost}_disk_lost_whole_again_seconds": seconds,
            f"{lost}_disk_lost_longest_write": round(writer.longest, 1),
        }
    )


def test_new_keys_reach_every_client(
    cluster: Kubernetes, cloud: Cloud, conn: Connection, pair: list[Guest], tmp_path: Path, report: Report
) -> None:
    """Under a server that writes; afterwards nobody needs the old ones."""
    one, old = pair[0], {user_of(cluster, use) for use in USES}
    held = storage(conn).find_volume("clone")
    disk = attach(conn, one, held)
    generation = cluster.get("cephstorage", "ceph", "-n", NAMESPACE)["spec"].get("keyGeneration", 1) + 1
    with writing(one, disk, 20000) as writer:
        started = time.monotonic()
        change(cluster, cloud, ceph={"keyGeneration": generation})
        report.add(new_keys_seconds=round(time.monotonic() - started))
        written = len(writer.acknowledged)
        until("writes to go on", lambda: len(writer.acknowledged) > written + 3, 60)
    assert writer.lost() == []
    detach(conn, one, held, disk)
    new = {user_of(cluster, use) for use in USES}
    assert f"cinder-{generation}" in new
    assert not old & new
    assert old | new <= clients_of(cluster)
    # What its node's libvirt keeps is read when a server starts.
    conn.compute.stop_server(one.id)
    server_reaches(conn, one.id, "SHUTOFF")
    conn.compute.start_server(one.id)
    server_reaches(conn, one.id, "ACTIVE")
    for name in old:
        command(cluster, "auth", "rm", f"client.{name}")
    assert volume(conn, "after-new-keys", image_id=raw(cluster, conn, tmp_path).id)
    # The scheduler hears within 15 s that cinder-backup, which was made anew, is there.
    time.sleep(20)
    kept = storage(conn).create_backup(name="after-new-keys", volume_id=held.id)
    storage(conn).wait_for_status(kept, "available", failures=["error"], interval=1, wait=300)
    disk = attach(conn, one, held)
    detach(conn, one, held, disk)
    boot = answering(conn, conn.compute.get_server(one.id)).boot()
    conn.compute.reboot_server(one.id, "HARD")
    until(
        "the server to have started again",
        lambda: _boot(one) not in {"", boot},
        300,
        1,
        failed=lambda: given_up(conn, one.id),
    )
    assert not old & clients_of(cluster), "nobody made the old ones again"


def _boot(guest: Guest) -> str:
    try:
        return guest.boot()
    except OSError:
        return ""


def test_several_stores_a_cache_and_what_is_imported(cluster: Kubernetes, cloud: Cloud, conn: Connection) -> None:
    """Images that were there stay; another store gets what asks for it; what is imported is what RBD can clone."""
    source = Path(module("images", "guest").strip().splitlines()[-1])
    stores = [{"name": "rbd", "type": "ceph"}, {"name": "files", "type": "pvc"}]
    change(cluster, cloud, glance={"storage": {"backends": stores}, "imageCache": {"enabled": True}})
    kept: Any = conn.image
    assert _stores(conn, kept.find_image("raw").id) == "rbd"
    made = kept.create_image("in-files", disk_format="qcow2", container_format="bare")
    headers = {"Content-Type": "application/octet-stream", "x-image-meta-store": "files"}
    kept.put(f"/images/{made.id}/file", data=source.read_bytes(), headers=headers).raise_for_status()
    image_reaches(conn, made.id, "active")
    assert _stores(conn, made.id) == "files"
    assert made.id not in images(cluster, "images")
    for _ in range(2):
        assert kept.download_image(made).content == source.read_bytes()
    assert made.id in {each["image_id"] for each in kept.get_image_cache().cached_images}
    imported = kept.create_image(
        "imported", filename=str(source), disk_format="qcow2", container_format="bare", use_import=True, wait=True
    )
    imported = until("the import", lambda: [i for i in [kept.get_image(imported)] if i.status == "active"], 180, 1)[0]
    assert (imported.disk_format, _stores(conn, imported.id)) == ("raw", "rbd")
    boot = volume(conn, "from-imported", image_id=imported.id)
    assert parent(cluster, "volumes", f"volume-{boot.id}") == f"images/{imported.id}@snap"


def test_images_in_swift_and_s3(cluster: Kubernetes, cloud: Cloud, conn: Connection) -> None:
    """A real server of both protocols, in which images are, and from which they go; volumes are made from either."""
    source = Path(module("images", "guest").strip().splitlines()[-1])
    objects.gateway(cluster, conn)
    keys = {field: {"name": objects.S3_LOGIN, "key": key} for field, key in _S3_KEYS.items()}
    stores = [
        *({"name": "rbd", "type": "ceph"}, {"name": "files", "type": "pvc"}, {"name": "swift", "type": "swift"}),
        {"name": "s3", "type": "s3", "s3": {"url": objects.ADDRESS, "bucket": "images-in-s3", **keys}},
    ]
    change(cluster, cloud, glance={"storage": {"backends": stores}})
    kept: Any = conn.image
    for store in ("swift", "s3"):
        made = kept.create_image(f"in-{store}", disk_format="qcow2", container_format="bare")
        headers = {"Content-Type": "application/octet-stream", "x-image-meta-store": store}
        kept.put(f"/images/{made.id}/file", data=source.read_bytes(), headers=headers).raise_for_status()
        image_reaches(conn, made.id, "active")
        assert _stores(conn, made.id) == store
        assert objects.objects(cluster) == 1
        assert kept.download_image(made).content == source.read_bytes()
        boot = volume(conn, f"from-{store}", image_id=made.id)
        storage(conn).delete_volume(boot)
        kept.delete_image(made)
        until("the object to go", lambda: objects.objects(cluster) == 0, 60, 1)


_S3_KEYS = {"accessKeyRef": "access", "secretKeyRef": "secret"}


def _stores(conn: Connection, image: str) -> str:
    """Names of the stores that have an image, which openstacksdk does not show."""
    return conn.image.get(f"/images/{image}").json()["stores"]


def test_a_quota_holds_until_it_goes(cluster: Kubernetes, conn: Connection) -> None:
    there = len(list(storage(conn).volumes()))
    meta = {"name": "few", "namespace": NAMESPACE}
    kind = {"apiVersion": "openstack.k8s.io/v1alpha1", "kind": "CinderQuota"}
    cluster.apply({**kind, "metadata": meta, "spec": {"project": "admin", "limits": {"volumes": there}}})
    cluster.kubectl("wait", "cinderquota/few", "-n", NAMESPACE, "--for=condition=Ready", "--timeout=60s")
    with pytest.raises(HttpException, match="VolumeLimitExceeded"):
        storage(conn).create_volume(name="too-many", size=1)
    cluster.kubectl("delete", "cinderquota", "few", "-n", NAMESPACE, "--timeout=60s")
    more = volume(conn, "one-more")
    storage(conn).delete_volume(more)


def test_old_rows_go(cluster: Kubernetes, cloud: Cloud) -> None:
    """The purge, with rows of today counted as old."""
    change(cluster, cloud, cinder={"purge": {"keep": "0d"}})
    assert _deleted(cluster)
    cluster.kubectl("create", "job", "purge-now", "-n", NAMESPACE, "--from=cronjob/cinder-purge")
    cluster.kubectl("wait", "job/purge-now", "-n", NAMESPACE, "--for=condition=Complete", "--timeout=120s")
    assert _deleted(cluster) == 0
    cluster.kubectl("delete", "job", "purge-now", "-n", NAMESPACE)


def _deleted(cluster: Kubernetes) -> int:
    """Rows of volumes, snapshots and backups that were deleted."""
    tables = ("volumes", "snapshots", "backups")
    counts = " + ".join(f"(SELECT COUNT(*) FROM cinder.{table} WHERE deleted)" for table in tables)
    script = 'exec mariadb -uroot -p"$(cat "$MARIADB_ROOT_PASSWORD_FILE")" -N'
    answer = cluster.kubectl(
        "exec", "-i", "-n", NAMESPACE, "mariadb-server-0", "--", "sh", "-c", script, stdin=f"SELECT {counts}"
    )
    return int(answer)
