"""The archive of a real Galera cluster has no gap and nothing twice when its primary changes, crashes or is emptied."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pymysql
import pytest

from openstack_operator import pki
from openstack_operator.plan import Release
from tests.unit.agents.archive_programs import (
    TABLE,
    Archiver,
    Ledger,
    ask,
    numbers,
    program,
    replay,
    settings,
)
from tests.unit.agents.test_backup_real import AUTHORITY, HOST, NOW, Pod, backup, folder
from tests.unit.galera_cluster import PASSWORD, GaleraCluster, Node, galera_cluster
from tests.unit.image_root import image_root
from tests.unit.polling import TIMEOUT

pytestmark = pytest.mark.seconds

_PORT = 8080
_SECONDS = 3


@dataclass
class Cloud:
    """A cluster, the archive of which runs beside its first member."""

    cluster: GaleraCluster
    primary: Node
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def pod(self) -> Pod:
        """Root in which the archiver runs, in the network of clients."""
        return Pod(self.cluster.nodes[0].root, port=3306)

    def lead_to(self, node: Node) -> None:
        """Make a member the primary, as the operator and the Service do."""
        self.cluster.label(None)
        self.cluster.label(node)
        self.primary = node
        self.pod.write("/etc/hosts", f"127.0.0.1 localhost\n{node.address} primary\n")

    @contextmanager
    def writer(self) -> Generator[None]:
        """Write one number after the other to the primary, also while it changes."""
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                number, begin = len(self.ledger.entries), time.time()
                while not stop.is_set():
                    try:
                        with self.primary.connect() as connection, connection.cursor() as cursor:
                            while not stop.is_set():
                                cursor.execute(f"INSERT IGNORE INTO cloud.numbers VALUES ({number}, '', '')")
                                self.ledger.entries.append((begin, time.time()))
                                number, begin = len(self.ledger.entries), time.time()
                    except pymysql.err.Error:
                        stop.wait(0.1)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(TIMEOUT)


class RestoredPod(Pod):
    """Server with the data of the cluster, which know its password."""

    def connect(self) -> Any:
        """Return a connection to the server."""
        return pymysql.connect(host="127.0.0.1", port=self.port, user="root", password=PASSWORD, autocommit=True)


@pytest.fixture(name="cloud", scope="module")
def _cloud(release: Release) -> Generator[Cloud]:
    with galera_cluster(release) as cluster:
        cloud = Cloud(cluster, cluster.nodes[0])
        pod = cloud.pod
        pod.write("/etc/backup/credentials/root", PASSWORD)
        pod.write("/etc/backup/repository/password", "password of the repository")
        folder(pod, "backup")
        cloud.lead_to(cluster.nodes[0])
        with cloud.primary.connect() as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE cloud")
            cursor.execute(TABLE)
        yield cloud


@contextmanager
def archiver(cloud: Cloud) -> Generator[Archiver]:
    """Archive the primary."""
    outside = cloud.primary.outside
    run = {**settings(cloud.pod, _PORT), "host": "primary", "tls": False}
    started = program(cloud.pod, "archive", run)
    process: Any = outside.do(started.__enter__)
    try:
        one = Archiver(cloud.pod, process, lambda: outside.do(lambda: ask(_PORT)))
        one.await_second(1)
        yield one
    finally:
        started.__exit__(None, None, None)


def test_an_archive_follows_the_primary(cloud: Cloud) -> None:
    first, second, _ = cloud.cluster.nodes
    seconds: list[int] = []

    def go_on() -> None:
        """Wait until some seconds more are in the archive."""
        now = int(time.time())
        one.await_second(now + _SECONDS)
        seconds.append(now + 1)

    with cloud.writer(), archiver(cloud) as one:
        chain = one.facts()["chain"]
        run = backup(cloud.pod, "base", host="127.0.0.1", tls=False)
        base = first.network.do(lambda: cloud.pod.run("database", run))
        assert "error" not in base, base
        go_on()
        cloud.lead_to(second)
        go_on()
        first.close()
        go_on()
        empty(first)
        cloud.cluster.await_ready()
        # Its log begins with what it received.
        cloud.lead_to(first)
        go_on()
        second.close()
        go_on()
        facts = one.facts()
        assert (facts["chain"], facts.get("lostAfter")) == (chain, None)
        one.end()
    with image_root("mariadb") as root:
        pod = RestoredPod(root)
        subprocess.run(["cp", "-a", str(first.root / "backup"), str(root / "backup")], check=True)
        pod.write("/etc/backup/repository/password", "password of the repository")
        certificate = pki.issue(AUTHORITY, pki.Request(common="mariadb", names=frozenset({HOST})), "drawn", NOW)
        for name, text in {"tls.crt": certificate.cert, "tls.key": certificate.key}.items():
            pod.write(f"/etc/mysql/tls/{name}", text)
        for number, at in enumerate(seconds):
            data = folder(pod, f"to-{number}")
            result = replay(pod, base, f"/to-{number}", at)
            assert result.get("chain") == chain, result
            with pod.server(f"/to-{number}"):
                cloud.ledger.check(numbers(pod), at)
            shutil.rmtree(data)


def empty(node: Node) -> None:
    """Start a member without its data."""
    for path in (node.root / "var/lib/mysql").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    node.start()
