"""Images are backed up and restored by a real restic, and compared with rows that a real server has."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest

from openstack_operator.agents.backup.images_restore import MARK
from tests.unit.agents import test_backup_real as real
from tests.unit.agents import test_backup_verify_real as verified
from tests.unit.agents.test_backup_real import Pod
from tests.unit.polling import TIMEOUT, until

pytestmark = pytest.mark.seconds

SIZE = 3 << 20
IDS = [f"{number}b9cf6ad-4c3f-4a0e-9a3e-31fbb3f0e3a1" for number in range(5)]
_TABLES = (
    "DROP DATABASE IF EXISTS glance_images",
    "CREATE DATABASE glance_images",
    """CREATE TABLE glance_images.images (id VARCHAR(36), size BIGINT, status VARCHAR(30), deleted BOOL,
    os_hash_algo VARCHAR(64), os_hash_value VARCHAR(128), created_at DATETIME, updated_at DATETIME)""",
    "CREATE TABLE glance_images.image_locations (image_id VARCHAR(36), value TEXT, deleted BOOL)",
    "CREATE TABLE glance_images.alembic_version (version_num VARCHAR(32))",
    "INSERT INTO glance_images.alembic_version VALUES ('2024_1')",
)


@pytest.fixture(name="pod", scope="module")
def _pod() -> Generator[Pod]:
    yield from real.with_server()


@pytest.fixture(name="tables")
def _tables(pod: Pod) -> None:
    """Tables of a Glance, without rows."""
    pod.execute(*_TABLES)


def upload(pod: Pod, identifier: str, volume: str = "glance", size: int = SIZE) -> bytes:
    """Put an image into a volume."""
    folder = pod.root / volume / "images"
    for path in (folder.parent, folder):
        path.mkdir(exist_ok=True)
        os.chown(path, real.USER, real.USER)
    data = os.urandom(size)
    (folder / identifier).write_bytes(data)
    (folder / identifier).chmod(0o640)
    os.chown(folder / identifier, real.USER, real.USER)
    return data


def insert(pod: Pod, identifier: str, data: bytes, status: str = "active", scheme: str = "file") -> None:
    """Write the row of an image."""
    digest = hashlib.sha512(data).hexdigest()
    pod.execute(
        f"INSERT INTO glance_images.images VALUES ('{identifier}', {len(data)}, '{status}', 0, 'sha512', '{digest}',"
        " '2026-01-01 00:00:00', NULL)",
        "INSERT INTO glance_images.image_locations VALUES"
        f" ('{identifier}', '{scheme}:///var/lib/glance/images/{identifier}', 0)",
    )


def backup(name: str, volume: str = "glance") -> dict[str, Any]:
    return {"backup": name, "cloud": "openstack", "name": "glance", "folder": f"/{volume}"}


def stored(pod: Pod, name: str, volume: str = "glance", **repository: Any) -> dict[str, Any]:
    result = pod.run("images", backup(name, volume), **repository)
    assert "error" not in result, result
    return result


def images_of(pod: Pod, volume: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (pod.root / volume / "images").iterdir()}


def test_a_second_backup_stores_new_images_alone(pod: Pod) -> None:
    for identifier in IDS[:3]:
        upload(pod, identifier)
    first = stored(pod, "first")
    assert (first["images"], first["bytes"]) == (3, 3 * SIZE)
    assert first["stored"] > 3 * SIZE
    assert stored(pod, "second")["stored"] < SIZE // 10
    upload(pod, IDS[3])
    third = stored(pod, "third")
    assert SIZE < third["stored"] < SIZE * 11 // 10
    real.folder(pod, "copy")
    result = pod.run("images_restore", {"folder": "/copy", "snapshots": [first["snapshot"], third["snapshot"]]})
    assert {**result, "seconds": 0} == {"images": 4, "bytes": 4 * SIZE, "seconds": 0}
    assert images_of(pod, "copy") == images_of(pod, "glance")
    image = (pod.root / "copy/images" / IDS[0]).stat()
    assert (image.st_uid, image.st_mode & 0o777) == (real.USER, 0o640)


def test_a_file_that_cannot_be_read_is_named(pod: Pod) -> None:
    upload(pod, IDS[0], "unread")
    os.chown(pod.root / "unread/images" / IDS[0], 0, 0)
    (pod.root / "unread/images" / IDS[0]).chmod(0)
    assert f"1 images cannot be read: {IDS[0]}" in pod.run("images", backup("unread", "unread"))["error"]


def test_a_restore_that_is_killed_goes_on(pod: Pod) -> None:
    for identifier in IDS[:3]:
        upload(pod, identifier, "slow", size=2 * SIZE)
    result = stored(pod, "slow", "slow")
    copy = real.folder(pod, "resumed")
    run = {"folder": "/resumed", "snapshots": [result["snapshot"]]}
    pod.configure(run, downloadKiB=real.SLOW)
    with pod.start("images_restore") as process:
        until("a part of it", lambda: any((copy / "images").glob("*")))
        for child in real.children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.wait(TIMEOUT)
    assert len((copy / MARK).read_text().splitlines()) == 1
    assert "error" not in pod.run("images_restore", run)
    assert images_of(pod, "resumed") == images_of(pod, "slow")
    assert pod.run("images_restore", run)["images"] == 3
    error = pod.run("images_restore", {**run, "snapshots": ["another"]})["error"]
    assert "has data of another restore" in error or "no matching ID" in error


@pytest.mark.usefixtures("tables")
def test_rows_are_compared_with_data(pod: Pod) -> None:
    data = {identifier: upload(pod, identifier, "rows") for identifier in IDS[:3]}
    for identifier in IDS[:2]:
        insert(pod, identifier, data[identifier])
    insert(pod, IDS[3], b"gone")
    insert(pod, IDS[4], b"in Ceph", scheme="rbd")
    images = stored(pod, "rows", "rows")["snapshot"]
    result = pod.run("database", real.backup(pod, "rows"))
    real.folder(pod, "database-of-rows")
    report = pod.run("restore", real.restoration(result, "/database-of-rows") | {"images": [images]})["images"]
    assert report == {
        "rows": 3,
        "elsewhere": 1,
        "withoutData": {"count": 1, "images": [IDS[3]]},
        "withoutRow": {"count": 1, "images": [IDS[2]]},
    }


@pytest.mark.usefixtures("tables")
def test_a_verified_backup_has_the_data_of_each_row(pod: Pod) -> None:
    data = {identifier: upload(pod, identifier, "verified") for identifier in IDS[:3]}
    for identifier, content in data.items():
        insert(pod, identifier, content)
    images = stored(pod, "verified", "verified")["snapshot"]
    assert verify(pod, "all-data", images) == {"images": 3, "fleeting": 0, "hashed": 3}
    insert(pod, IDS[3], b"gone")
    assert "1 images have a row and not all of their data" in verify(pod, "row-alone", images)["error"]
    pod.execute(
        f"DELETE FROM glance_images.images WHERE id = '{IDS[3]}'",
        "UPDATE glance_images.images SET os_hash_value = REPEAT('0', 128)",
    )
    assert "are not those of its row (os_hash_value)" in verify(pod, "other-hash", images)["error"]
    pod.execute("UPDATE glance_images.images SET updated_at = UTC_TIMESTAMP()")
    assert verify(pod, "changed-meanwhile", images) == {"images": 3, "fleeting": 3, "hashed": 0}


def verify(pod: Pod, name: str, snapshot: str) -> dict[str, Any]:
    """Return what the verification of a backup with these images says."""
    run = verified.backed_up(
        pod, name, verified.stored(pod, name), images=[{"name": "glance", "snapshots": [snapshot]}]
    )
    result = pod.run("verify", run | {"identity": False})
    return result if "error" in result else {name: result[name] for name in ("images", "fleeting", "hashed")}
