"""A cloud is restored to a second between two backups: what was acknowledged until then is there, and nothing later.
Then one schema goes on to a later second, while the cloud runs.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..s3 import S3Server
from ..waiting import until
from .test_backup import completed, remove, repository, resource, secrets

SCHEDULE, RESTORE, SCHEMA_RESTORE = "often", "back-in-time", "identity-alone"
PROJECTS = 40
_ledger: list[tuple[float, float]] = []
"""When each project was begun, and when it was acknowledged."""
_seconds: list[int] = []
"""Seconds between two projects, and after the last one."""


def stamp(second: float) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"


def moments() -> tuple[int, int]:
    """Return a second between two projects, and one after the last one."""
    between, after = _seconds
    return between, after


def recoverable(cluster: Kubernetes, cloud: Cloud) -> str:
    live = cluster.get(ours("openstackbackupschedule"), SCHEDULE, "-n", cloud.namespace)
    return str((live.get("status") or {}).get("lastRecoverableTime") or "")


def active(cluster: Kubernetes, cloud: Cloud) -> bool:
    items = cluster.items(ours("openstackbackup"), "-n", cloud.namespace)
    return any(not (item.get("status") or {}).get("completed") for item in items)


def test_changes_are_archived_while_the_cloud_serves(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    spec = {"schedule": "* * * * *", "repository": repository(s3), "archive": True}
    cluster.apply(*secrets(s3, cloud.namespace), resource("OpenStackBackupSchedule", SCHEDULE, cloud.namespace, spec))
    began = time.time()
    until("a backup beside the archive", lambda: recoverable(cluster, cloud) > stamp(began), 300, 1)
    # Later backups must not have what is written from here on.
    patch = {"spec": {"suspend": True}}
    cluster.kubectl(
        *("patch", ours("openstackbackupschedule"), SCHEDULE, "-n", cloud.namespace),
        *("--type", "merge", "-p", json.dumps(patch)),
    )
    until("no backup to run", lambda: not active(cluster, cloud), 120, 1)
    api: Any = proof.connect(cluster, cloud.namespace)
    for number in range(PROJECTS):
        begin = time.time()
        api.identity.create_project(name=f"numbered-{number}")
        _ledger.append((begin, time.time()))
        time.sleep(0.2)
    # By the clock of this machine, which is that of the nodes.
    ended = time.time()
    _seconds.extend((int(_ledger[PROJECTS // 2][0]), int(ended)))
    until("the archive of all", lambda: recoverable(cluster, cloud) > stamp(ended), 180, 1)
    live = cluster.get(ours("openstackbackupschedule"), SCHEDULE, "-n", cloud.namespace)
    report.add(archive=live["status"], archive_seen_after=time.time() - ended)


def test_the_cloud_is_as_it_was_at_that_second(cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report) -> None:
    remove(cluster, cloud.namespace)
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cloud.namespace}})
    cluster.apply(*secrets(s3, cloud.namespace))
    second, _ = moments()
    spec = {"repository": repository(s3), "pointInTime": stamp(second)}
    cluster.apply(resource("OpenStackRestore", RESTORE, cloud.namespace, spec))
    status = completed(cluster, ours("openstackrestore"), RESTORE, cloud.namespace, 600)
    report.add(restore_to_a_second=status)
    assert status["backup"].startswith(f"{SCHEDULE}-")
    assert status["restored"][0]["changes"] > 0
    api: Any = proof.connect(cluster, cloud.namespace)
    names = {project.name for project in api.identity.projects()}
    numbers = [number for number in range(PROJECTS) if f"numbered-{number}" in names]
    assert numbers == list(range(len(numbers)))
    # To the end of the second: one that was under way then may be either.
    assert (
        sum(end < second + 1 for _, end in _ledger) <= len(numbers) <= sum(begin < second + 1 for begin, _ in _ledger)
    )
    assert 0 < len(numbers) < PROJECTS


@contextmanager
def readers(api: Any) -> Generator[list[str]]:
    """Ask Keystone and Glance again and again; yield the list of requests that failed."""
    stop, failures = threading.Event(), list[str]()

    def ask() -> None:
        while not stop.is_set():
            try:
                list(api.identity.projects())
                list(api.image.images())
            except Exception as error:
                failures.append(repr(error))
            time.sleep(0.1)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield failures
    finally:
        stop.set()
        thread.join(60)


def test_a_schema_goes_to_another_second_while_the_cloud_runs(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    api: Any = proof.connect(cluster, cloud.namespace)
    network = api.network.create_network(name="of-the-restored-cloud")
    spec = {"repository": repository(s3), "pointInTime": stamp(moments()[1]), "only": ["keystone"]}
    restore = resource("OpenStackRestore", SCHEMA_RESTORE, cloud.namespace, spec)
    cluster.apply(restore)

    def reason() -> str:
        live = cluster.get(ours("openstackrestore"), SCHEMA_RESTORE, "-n", cloud.namespace)
        conditions = {each["type"]: each for each in (live.get("status") or {}).get("conditions", ())}
        return str(conditions.get("Ready", {}).get("message", ""))

    until("a refusal of a cloud that runs", lambda: "spec.confirm" in reason(), 60, 1)
    cluster.apply({**restore, "spec": {**spec, "confirm": cloud.namespace}})
    with readers(api) as failures:
        status = completed(cluster, ours("openstackrestore"), SCHEMA_RESTORE, cloud.namespace, 300)
    report.add(restore_of_a_schema=status)
    # A transaction in the way of the change of places may be ended by the server, which its client repeats.
    assert len(failures) <= 1, failures
    [schema] = status["schemas"]
    assert (schema["name"], schema["rows"] > 0) == ("keystone", True)
    names = {project.name for project in api.identity.projects()}
    assert names >= {f"numbered-{number}" for number in range(PROJECTS)}
    # Other schemas are those of the cloud that runs.
    assert api.network.get_network(network.id).name == network.name
    assert proof.connect(cluster, cloud.namespace).authorize()
