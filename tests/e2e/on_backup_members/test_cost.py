"""What users notice of backups and of an archive of three members, under the load of `make chaos`."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from rich.console import Console

from tests.judging import Allowance
from tools.chaos.api import Api
from tools.chaos.journal import Journal, now
from tools.chaos.load import Load
from tools.chaos.run import Run
from tools.chaos.site import Site
from tools.cloud.session import Cloud
from tools.localcluster.kubernetes import Kubernetes, ours

from ..conftest import Report
from ..on_backup.conftest import BUCKET
from ..on_backup.test_backup import completed, repository, resource, secrets
from ..s3 import S3Server
from ..waiting import until
from .lag import p99
from .test_each_second import with_role

SECONDS = 120
"""Of each phase without a backup."""
ROUNDS = 3
_MEBIBYTES = 400
_ROWS = 4096
_INTERVAL = 2.0
"""Seconds between two requests for a list: two cores that do nothing else answer no more of them in time."""
_ASKED = {
    "identity": "/projects",
    "network": "/v2.0/networks?limit=10",
    "compute": "/servers?limit=10",
    "image": "/v2/images?limit=10",
}
ARCHIVE = "beside-the-load"
_ALLOWANCE = Allowance(0.0, "a backup reads a member that no client uses")


@dataclass
class Asks:
    """A list that is asked for again and again."""

    api: Api
    service: str
    interval: float = _INTERVAL

    @property
    def kind(self) -> str:
        """Name among the requests of the load."""
        return f"asks-{self.service}"

    def attempt(self, number: int) -> str:
        """Ask once."""
        del number
        self.api.call(self.service, "GET", _ASKED[self.service])
        return ""


@dataclass
class Phase:
    """Requests of a span of time, and what the machine did in it."""

    seconds: float = 0.0
    busy: float = 0.0
    """Seconds of CPU, of all programs of the machine."""
    latencies: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Seconds of each request that was answered, by its kind."""
    failed: list[str] = field(default_factory=list[str])

    def add(self, other: Phase) -> None:
        """Take another span of the same kind for a part of this one."""
        self.seconds += other.seconds
        self.busy += other.busy
        self.failed += other.failed
        for kind, latencies in other.latencies.items():
            self.latencies.setdefault(kind, []).extend(latencies)

    def asked(self) -> list[float]:
        """Return the seconds of all requests for lists, the fastest first."""
        return sorted(each for kind, found in self.latencies.items() if kind.startswith("asks-") for each in found)

    def failures(self) -> dict[str, float]:
        """Return the share of requests that failed."""
        return {"failed": len(self.failed) / (len(self.failed) + sum(map(len, self.latencies.values())))}

    def figures(self) -> dict[str, Any]:
        """Return milliseconds of requests, and cores in use."""
        asked = self.asked()
        return {
            "requests": sum(map(len, self.latencies.values())),
            "failed": self.failed,
            "median_ms": round(median(asked) * 1e3, 1),
            "p99_ms": round(p99(asked) * 1e3, 1),
            "p99_ms_by_kind": {kind: round(p99(found) * 1e3, 1) for kind, found in sorted(self.latencies.items())},
            "cores_busy": round(self.busy / self.seconds, 2),
            "seconds": round(self.seconds, 1),
        }


def busy_seconds() -> float:
    """Return the CPU time of all programs since the machine started."""
    user, nice, system = map(int, Path("/proc/stat").read_text(encoding="ascii").split()[1:4])
    return (user + nice + system) / 100


@contextmanager
def phase(load: Load) -> Generator[Phase]:
    """Measure what happens inside the block."""
    began, busy, measured = now(), busy_seconds(), Phase()
    yield measured
    measured.seconds, measured.busy = now() - began, busy_seconds() - busy
    for attempt in load.journal.between(began):
        if attempt.error:
            measured.failed.append(f"{attempt.kind}: {attempt.error}")
        else:
            measured.latencies.setdefault(attempt.kind, []).append(attempt.ended - attempt.began)


@pytest.fixture(scope="module")
def load(stood: tuple[Any, Cloud]) -> Iterator[Load]:
    """The clients of `make chaos`, and some that ask for lists all the time."""
    session, cloud = stood
    run = Run(Site(session.cluster, namespace=cloud.namespace, plane=cloud.name), Console())
    asks = [Asks(Api(run.access), service) for service in _ASKED]
    with Load(Journal(), [*run.load.clients, *asks]) as load:
        yield load


def fill(cluster: Kubernetes, cloud: Cloud) -> None:
    """Give the database rows that no compression makes smaller."""
    statement = f"INSERT INTO bytes (data) SELECT RANDOM_BYTES(1024) FROM seq_1_to_{_ROWS};"
    begin = "CREATE DATABASE ballast; USE ballast; CREATE TABLE bytes (id INT AUTO_INCREMENT PRIMARY KEY, data BLOB);"
    at_primary(cluster, cloud, begin + statement * (_MEBIBYTES * 1024 // _ROWS))


def at_primary(cluster: Kubernetes, cloud: Cloud, statements: str) -> None:
    pod = with_role(cluster, cloud, primary=True)
    ask = "MYSQL_PWD=$(cat /etc/mysql/credentials/root) mariadb -u root -S /run/mysqld/mysqld.sock"
    words = ("exec", "-i", "-n", cloud.namespace, pod, "-c", "main", "--", "sh", "-c", ask)
    cluster.kubectl(*words, stdin=statements, timeout=300)


def stored(s3: S3Server, folder: str = "") -> int:
    """Return the bytes in the bucket, or in a folder of that name."""
    sizes = [path.stat().st_size for path in s3.buckets.rglob("*") if path.is_file() and folder in str(path)]
    return sum(sizes)


def test_users_notice_no_backup(cluster: Kubernetes, cloud: Cloud, s3: S3Server, load: Load, report: Report) -> None:
    fill(cluster, cloud)
    cluster.apply(*secrets(s3, cloud.namespace))
    calm, beside = Phase(), Phase()
    facts: list[dict[str, Any]] = []
    time.sleep(30)
    for number in range(ROUNDS):
        with phase(load) as measured:
            time.sleep(SECONDS / ROUNDS)
        calm.add(measured)
        name, before = f"full-{number}", stored(s3)
        cluster.apply(resource("OpenStackBackup", name, cloud.namespace, {"repository": repository(s3)}))
        with phase(load) as measured:
            status = completed(cluster, ours("openstackbackup"), name, cloud.namespace, 600)
        beside.add(measured)
        facts.append({"status": status, "stored": stored(s3) - before, "seconds": measured.seconds})
    report.add(cost_of_backups={"calm": calm.figures(), "backup": beside.figures(), "backups": facts})
    _ALLOWANCE.judge(beside.failures(), calm.failures())


def test_users_notice_no_archive(cluster: Kubernetes, cloud: Cloud, s3: S3Server, load: Load, report: Report) -> None:
    with phase(load) as calm:
        time.sleep(SECONDS)
    spec = {"schedule": "0 0 1 1 *", "repository": repository(s3), "archive": True}
    cluster.apply(resource("OpenStackBackupSchedule", ARCHIVE, cloud.namespace, spec))
    name = ("-n", cloud.namespace, "-l", f"app.kubernetes.io/instance={ARCHIVE}")
    until("the program that archives", lambda: cluster.items("pods", *name), 120, 1)
    until("its first objects", lambda: stored(s3, f"{BUCKET}/clouds/openstack/archive"), 120, 1)
    before = stored(s3, "/archive/")
    with phase(load) as beside:
        time.sleep(SECONDS)
    per_hour = (stored(s3, "/archive/") - before) * 3600 / beside.seconds
    cost = {"calm": calm.figures(), "archive": beside.figures(), "mebibytes_per_hour": round(per_hour / 2**20, 1)}
    report.add(cost_of_an_archive=cost)
    cluster.kubectl("delete", ours("openstackbackupschedule"), ARCHIVE, "-n", cloud.namespace)
    at_primary(cluster, cloud, "DROP DATABASE ballast")
    _ALLOWANCE.judge(beside.failures(), calm.failures())
