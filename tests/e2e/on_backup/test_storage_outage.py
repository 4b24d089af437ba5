"""The store of backups is gone, and then its disk is full: nothing half counts as whole, and the archive has no gap."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.cloud.view import conditions, ready
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..s3 import S3Server
from ..waiting import until
from .test_backup import completed, repository, resource, secrets
from .test_point_in_time import SCHEDULE, stamp

OUTAGE = "outage"
DARK_SECONDS = 600.0
_BETWEEN = 2.0
"""Seconds between two projects."""
_MEBIBYTE = 1 << 20


def schedule(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    return cluster.get(ours("openstackbackupschedule"), OUTAGE, "-n", cloud.namespace)


def last_second(cluster: Kubernetes, cloud: Cloud) -> str:
    return str((schedule(cluster, cloud).get("status") or {}).get("lastRecoverableTime") or "")


def complaint(cluster: Kubernetes, cloud: Cloud) -> str:
    """Return what the schedule says about its archive while that does not work."""
    live = conditions(schedule(cluster, cloud)).get("ArchiveReady", {})
    return str(live.get("message")) if live.get("status") == "False" else ""


@contextmanager
def projects(api: Any, prefix: str) -> Generator[list[tuple[float, float]]]:
    """Create numbered projects; yield when each was begun and acknowledged."""
    stop, ledger, errors = threading.Event(), list[tuple[float, float]](), list[Exception]()

    def create() -> None:
        try:
            while not stop.wait(_BETWEEN):
                begin = time.time()
                api.identity.create_project(name=f"{prefix}-{len(ledger)}")
                ledger.append((begin, time.time()))
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=create)
    thread.start()
    try:
        yield ledger
    finally:
        stop.set()
        thread.join(60)
    assert errors == []


def numbers(api: Any, prefix: str) -> list[int]:
    names = [str(project.name) for project in api.identity.projects()]
    return sorted(int(name.rpartition("-")[2]) for name in names if name.startswith(f"{prefix}-"))


def backups(cluster: Kubernetes, cloud: Cloud) -> dict[str, dict[str, Any]]:
    """Return the status of each backup of the schedule, by its name."""
    items = cluster.items(ours("openstackbackup"), "-n", cloud.namespace)
    own = [item for item in items if item["metadata"]["name"].startswith(f"{OUTAGE}-")]
    return {item["metadata"]["name"]: item.get("status") or {} for item in own}


def test_ten_minutes_without_the_store_leave_no_gap(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    cluster.kubectl("delete", ours("openstackbackupschedule"), SCHEDULE, "-n", cloud.namespace, "--ignore-not-found")
    cluster.apply(*secrets(s3, cloud.namespace))
    spec = {"schedule": "*/2 * * * *", "repository": repository(s3), "archive": True, "include": {"images": False}}
    cluster.apply(resource("OpenStackBackupSchedule", OUTAGE, cloud.namespace, spec))
    began = time.time()
    until("a backup beside the archive", lambda: last_second(cluster, cloud) > stamp(began), 400, 1)
    api: Any = proof.connect(cluster, cloud.namespace)
    with projects(api, "dark") as ledger:
        s3.stop()
        gone = time.time()
        said = until("a complaint about the archive", lambda: complaint(cluster, cloud), 240, 1)
        assert not ready(schedule(cluster, cloud))
        time.sleep(max(0.0, gone + DARK_SECONDS - time.time()))
        whole = [name for name, each in backups(cluster, cloud).items() if each.get("completed", "") > stamp(gone + 5)]
        last_reached = last_second(cluster, cloud)
        s3.start()
        back = time.time()
        until("the archive to go on", lambda: last_second(cluster, cloud) > stamp(back), 300, 1)
        report.add(complaint=said, archive_seen_after=time.time() - back)
    assert whole == []
    assert last_reached <= stamp(gone + 5)
    until("no complaint", lambda: not complaint(cluster, cloud), 120, 1)
    # The middle of the time without a store.
    second = int(gone + DARK_SECONDS / 2)
    spec = {"repository": repository(s3), "pointInTime": stamp(second), "only": ["keystone"]}
    restore = resource("OpenStackRestore", "in-the-dark", cloud.namespace, {**spec, "confirm": cloud.namespace})
    cluster.apply(restore)
    status = completed(cluster, ours("openstackrestore"), "in-the-dark", cloud.namespace, 300)
    report.add(restore_into_the_outage=status)
    found = numbers(api, "dark")
    assert found == list(range(len(found)))
    assert sum(end < second + 1 for _, end in ledger) <= len(found) <= sum(begin < second + 1 for begin, _ in ledger)
    assert 0 < len(found) < len(ledger)


def test_a_full_disk_of_the_store_leaves_no_half_backup(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    until("the archive", lambda: last_second(cluster, cloud) > stamp(time.time() - 150), 300, 1)
    filler = s3.buckets.parent / "filler"
    with suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(os.urandom(_MEBIBYTE))
    full = time.time()
    try:
        said = until("a complaint about the archive", lambda: complaint(cluster, cloud), 240, 1)
        spec = {"repository": repository(s3), "include": {"images": False}}
        cluster.apply(resource("OpenStackBackup", "into-a-full-disk", cloud.namespace, spec))
        time.sleep(60)
        live = cluster.get(ours("openstackbackup"), "into-a-full-disk", "-n", cloud.namespace)
        report.add(complaint_of_a_full_disk=said, backup_into_a_full_disk=live.get("status"))
        assert "completed" not in (live.get("status") or {})
    finally:
        filler.unlink()
    back = time.time()
    until("the archive to go on", lambda: last_second(cluster, cloud) > stamp(back), 300, 1)
    report.add(archive_after_a_full_disk=time.time() - back)
    api: Any = proof.connect(cluster, cloud.namespace)
    assert api.identity.create_project(name="after-the-full-disk")
    until(
        "a whole backup",
        lambda: any(each.get("completed", "") > stamp(back) for each in backups(cluster, cloud).values()),
        600,
        1,
    )
    # A second in which the disk was full.
    second = int((full + back) / 2)
    spec = {"repository": repository(s3), "pointInTime": stamp(second), "only": ["keystone"]}
    restore = resource("OpenStackRestore", "while-full", cloud.namespace, {**spec, "confirm": cloud.namespace})
    cluster.apply(restore)
    completed(cluster, ours("openstackrestore"), "while-full", cloud.namespace, 300)
    assert "after-the-full-disk" not in {project.name for project in api.identity.projects()}
    # Later tests have schedules of their own.
    cluster.kubectl("delete", ours("openstackbackupschedule"), OUTAGE, "-n", cloud.namespace)
