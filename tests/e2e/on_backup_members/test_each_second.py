"""Twenty random seconds of an archive that went on while the primary changed, a member got all data anew, and the
program that archives was killed: what was acknowledged until then is there, and nothing later.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any

import pytest

from tools.cloud import proof
from tools.cloud.session import Cloud
from tools.cloud.view import ready
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..on_backup.test_backup import repository, resource, secrets
from ..on_backup.test_point_in_time import SCHEDULE, active, recoverable, stamp
from ..s3 import S3Server
from ..waiting import until
from .lag import Lag, p99
from .replays import Replay

SECONDS = 20
CALM = 60.0
"""Seconds before members are disturbed."""
MOST_BEHIND, MOST_BEHIND_IN_FAULTS = 5.0, 15.0
"""Seconds between now and the last second to which a restore can go, in 99 of 100 moments."""
PAUSE = 0.3
_ROLE = "openstack.k8s.io/role"


@dataclass
class Entry:
    """A row that a client asked for."""

    name: str
    begin: float
    """By the clock of this machine, which is that of the nodes."""
    end: float | None = None
    """Time of the acknowledgement; None if there was none: the row may be there."""


class Writer:
    """Creates numbered objects by one API, one after the other, until it is stopped."""

    def __init__(self, kind: str, create: Callable[[str], object]) -> None:
        self.kind, self._create = kind, create
        self.ledger: list[Entry] = []

    def run(self, stop: threading.Event) -> None:
        """Write until told to stop."""
        while not stop.wait(PAUSE):
            entry = Entry(f"numbered-{self.kind}-{len(self.ledger)}", time.time())
            self.ledger.append(entry)
            try:
                self._create(entry.name)
            # Without an answer, whatever the reason, the row is not acknowledged.
            except Exception:
                continue
            entry.end = time.time()


_ledger: list[Entry] = []
_base: dict[str, Any] = {}


def members(cluster: Kubernetes, cloud: Cloud) -> dict[str, str]:
    """Return the role of each member."""
    label = "app.kubernetes.io/component=server,app.kubernetes.io/instance=mariadb"
    pods = cluster.items("pods", "-n", cloud.namespace, "-l", label)
    return {pod["metadata"]["name"]: pod["metadata"]["labels"].get(_ROLE, "") for pod in pods}


def healthy(cluster: Kubernetes, cloud: Cloud) -> bool:
    return ready(cluster.get(ours("mariadb"), "mariadb", "-n", cloud.namespace))


def with_role(cluster: Kubernetes, cloud: Cloud, *, primary: bool) -> str:
    roles = members(cluster, cloud)
    return max(name for name, role in roles.items() if (role == "primary") is primary)


def test_changes_are_archived_while_members_come_and_go(
    cluster: Kubernetes, cloud: Cloud, s3: S3Server, report: Report
) -> None:
    spec = {"schedule": "* * * * *", "repository": repository(s3), "archive": True}
    cluster.apply(*secrets(s3, cloud.namespace), resource("OpenStackBackupSchedule", SCHEDULE, cloud.namespace, spec))
    began = time.time()
    until("a backup beside the archive", lambda: recoverable(cluster, cloud) > stamp(began), 300, 1)
    patch = json.dumps({"spec": {"suspend": True}})
    name = ("patch", ours("openstackbackupschedule"), SCHEDULE, "-n", cloud.namespace)
    cluster.kubectl(*name, "--type", "merge", "-p", patch)
    until("no backup to run", lambda: not active(cluster, cloud), 180, 1)
    _base.update(_last_backup(cluster, cloud))
    api: Any = proof.connect(cluster, cloud.namespace)
    other: Any = proof.connect(cluster, cloud.namespace)
    writers = [
        Writer("project", lambda name: api.identity.create_project(name=name)),
        Writer("group", lambda name: other.network.create_security_group(name=name)),
    ]
    stop = threading.Event()
    threads = [threading.Thread(target=writer.run, args=[stop]) for writer in writers]
    for thread in threads:
        thread.start()
    began = time.time()
    with Lag(cluster, cloud, f"{SCHEDULE}-archive-mariadb") as lag:
        try:
            time.sleep(CALM)
            disturbed = time.time()
            _disturb(cluster, cloud)
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)
    ended = time.time()
    until("the archive of all", lambda: recoverable(cluster, cloud) > stamp(ended), 240, 1)
    seen_after = time.time() - ended
    _ledger.extend(entry for writer in writers for entry in writer.ledger)
    acknowledged = sum(entry.end is not None for entry in _ledger)
    calm, faults = lag.seconds(began, disturbed), lag.seconds(disturbed, ended)
    report.add(
        rows=len(_ledger),
        acknowledged=acknowledged,
        archive_seen_after=seen_after,
        seconds_behind={"calm": _spread(calm), "faults": _spread(faults)},
    )
    assert acknowledged > 100
    assert p99(calm) <= MOST_BEHIND
    assert p99(faults) <= MOST_BEHIND_IN_FAULTS


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return {"median": round(median(seconds), 1), "p99": round(p99(seconds), 1), "most": round(seconds[-1], 1)}


def _disturb(cluster: Kubernetes, cloud: Cloud) -> None:
    """Change the primary, let a member get all data anew, and kill the program that archives."""
    time.sleep(10)
    before = with_role(cluster, cloud, primary=True)
    cluster.kubectl("delete", "pod", before, "-n", cloud.namespace, "--wait=false")
    until("another primary", lambda: with_role(cluster, cloud, primary=True) != before, 120, 0.5)
    until("three members", lambda: healthy(cluster, cloud), 300, 1)
    time.sleep(10)
    emptied = with_role(cluster, cloud, primary=False)
    cluster.kubectl("delete", "pvc", f"data-{emptied}", "-n", cloud.namespace, "--wait=false")
    cluster.kubectl("delete", "pod", emptied, "-n", cloud.namespace, "--force", "--wait=false")
    time.sleep(5)
    until("three members again", lambda: healthy(cluster, cloud), 400, 1)
    pods = cluster.items("pods", "-n", cloud.namespace, "-l", "app.kubernetes.io/instance=often")
    for pod in pods:
        if "archive" in pod["metadata"]["name"]:
            cluster.kubectl("delete", "pod", pod["metadata"]["name"], "-n", cloud.namespace, "--force", "--wait=false")
    time.sleep(20)


def _last_backup(cluster: Kubernetes, cloud: Cloud) -> dict[str, Any]:
    """Return what a restore knows of the database of the newest backup."""
    items = [each for each in cluster.items(ours("openstackbackup"), "-n", cloud.namespace) if "status" in each]
    name = max(each["metadata"]["name"] for each in items if each["status"].get("completed"))
    record = cluster.get("configmap", f"{name}-record", "-n", cloud.namespace)["data"]["record.json"]
    entry = json.loads(record)["databases"]["mariadb"]
    return {each: entry[each] for each in ("snapshot", "gtid", "server")}


@pytest.mark.parametrize("number", range(SECONDS))
def test_the_database_is_as_it_was_at_a_second(cluster: Kubernetes, cloud: Cloud, number: int) -> None:
    assert _ledger
    chance = random.Random(f"{number} of {SECONDS}")
    begins = sorted(entry.begin for entry in _ledger)
    second = int(chance.uniform(begins[0], begins[-1]))
    run = {
        **_base,
        "cloud": cloud.namespace,
        "pointInTime": f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}",
        "restore": str(number),
        "database": "mariadb",
        "datadir": "/var/lib/mysql",
    }
    rows = Replay(cluster, cloud.namespace, f"replay-{number}", run, f"{SCHEDULE}-repository").rows()
    # To the end of the second: a change that was under way then may be there or not.
    until_then = {entry.name for entry in _ledger if entry.end is not None and entry.end < second + 1}
    later = {entry.name for entry in _ledger if entry.begin >= second + 1}
    assert not until_then - rows, f"acknowledged before the end of {run['pointInTime']}, and lost"
    assert not rows & later, f"begun after the end of {run['pointInTime']}, and there"
