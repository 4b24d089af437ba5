"""A real MariaDB is archived while clients write, and restored to a second: it has what was acknowledged until then."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import threading
import time
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from openstack_operator import agents, pki
from tests.unit.agents.test_backup_real import (
    AUTHORITY,
    HOST,
    NOW,
    PASSWORD,
    REPOSITORY,
    USER,
    Pod,
    backup,
    children,
    folder,
    restoration,
)
from tests.unit.image_root import image_root, inside
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

pytestmark = pytest.mark.seconds

_SHARED = ("run", "bucket", "repository", "sql", "sealed", "binlog", "objects", "chain")
MODULES = {"archive": (*_SHARED, "database", "stream", "archive"), "replay": (*_SHARED, "restore", "replay")}
_SECONDS = 6
"""Seconds of the writer between two faults."""


@dataclass
class Ledger:
    """Numbers that a client wrote: when it began with each, and when it was acknowledged."""

    entries: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def acknowledged(self, second: int) -> int:
        """Return how many were acknowledged until a second ended."""
        return sum(end < second + 1 for _, end in self.entries)

    def begun(self, second: int) -> int:
        """Return how many were begun until a second ended."""
        return sum(begin < second + 1 for begin, _ in self.entries)


@contextmanager
def writer(pod: Pod, ledger: Ledger) -> Generator[None]:
    """Write one number after the other."""
    stop = threading.Event()

    def write() -> None:
        with pod.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                begin = time.time()
                cursor.execute(
                    f"INSERT INTO cloud.numbers VALUES ({len(ledger.entries)}, RANDOM_BYTES(100), 'ä\\0\\r\\n')"
                )
                ledger.entries.append((begin, time.time()))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(TIMEOUT)


@dataclass
class Archiver:
    """The program that archives."""

    pod: Pod
    run: Mapping[str, Any]
    url: str
    process: Any
    port: int

    def facts(self) -> dict[str, Any]:
        """Return its status; empty while it has none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}", timeout=10) as answer:
                return dict(json.load(answer))
        except OSError:
            return {}

    def recoverable(self) -> int:
        """Return the last second to which a restore can go; 0 before there is one."""
        text = self.facts().get("lastRecoverableTime")
        return int(datetime.fromisoformat(text).timestamp()) if text else 0

    def await_second(self, second: float) -> None:
        """Wait until a restore can go to a second."""
        until(f"the archive of {second}", lambda: self.recoverable() >= second)

    def kill(self) -> None:
        """Kill it as a power cut does."""
        for child in children(self.process.pid):
            os.kill(child, signal.SIGKILL)
        self.process.wait(TIMEOUT)

    def end(self) -> dict[str, Any]:
        """End it in order; return its last status."""
        for child in children(self.process.pid):
            os.kill(child, signal.SIGTERM)
        assert self.process.wait(TIMEOUT) == 0
        return dict(json.loads((self.pod.root / "tmp/message-archive").read_text(encoding="utf-8")))


@contextmanager
def program(pod: Pod, name: str, run: Mapping[str, Any], url: str) -> Generator[Any]:
    """Start a program with a repository."""
    pod.configure(run, url=url)
    env = {"TERMINATION_LOG": f"/tmp/message-{name}", "RESTIC_CACHE_DIR": "/tmp/cache", "HOME": "/nonexistent"}
    (pod.root / f"tmp/message-{name}").unlink(missing_ok=True)
    command = agents.python(*(f"backup/{module}.py" for module in MODULES[name]))
    with inside(pod.root, USER, *command, env=env) as process:
        yield process


@contextmanager
def archiver(pod: Pod, url: str = REPOSITORY["url"], **changes: Any) -> Generator[Archiver]:
    """Archive the server of a pod."""
    port = free_port()
    login = {"host": HOST, "port": pod.port, "user": "root", "tls": True, "members": []}
    run = {"cloud": "openstack", "database": "mariadb", **login, "seconds": 1, "port_of_status": port, **changes}
    with program(pod, "archive", run, url) as process:
        one = Archiver(pod, run, url, process, port)
        until("an archive", lambda: process.poll() is not None or one.recoverable())
        assert process.poll() is None
        yield one


def replay(pod: Pod, result: Mapping[str, Any], data: str, second: int, url: str = REPOSITORY["url"]) -> dict[str, Any]:
    """Restore a backup to the end of a second; return the result of the program."""
    with replaying(pod, result, data, second, url) as process:
        status = process.wait(TIMEOUT)
    line = (pod.root / "tmp/message-replay").read_text(encoding="utf-8")
    return {"error": line} if status else json.loads(line)


@contextmanager
def replaying(
    pod: Pod, result: Mapping[str, Any], data: str, second: int, url: str = REPOSITORY["url"]
) -> Generator[Any]:
    time_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = restoration(result, data, cloud="openstack", pointInTime=time_text)
    with program(pod, "replay", run, url) as process:
        yield process


def check(pod: Pod, data: str, ledger: Ledger, second: int) -> None:
    """Check that a database has all that was acknowledged until a second ended, and nothing that was begun later."""
    with Pod(pod.root).server(data) as _:
        pass


@dataclass
class Recorded:
    """A cloud with a backup, and an archive of what was written after it."""

    pod: Pod
    ledger: Ledger
    base: Mapping[str, Any]
    began: int
    """First second after the backup."""
    killed: int
    """Second in which the archiver was killed."""
    ended: int
    """Last second to which a restore can go."""


@pytest.fixture(name="pod", scope="module")
def _pod() -> Generator[Pod]:
    with image_root("mariadb") as root:
        if not (root / "usr/bin/restic").exists():
            pytest.skip("the image has no restic yet; python -m images build mariadb")
        pod = Pod(root)
        certificate = pki.issue(AUTHORITY, pki.Request(common="mariadb", names=frozenset({HOST})), "drawn", NOW)
        for name, text in {"tls.crt": certificate.cert, "tls.key": certificate.key}.items():
            pod.write(f"/etc/mysql/tls/{name}", text)
        pod.write("/etc/hosts", f"127.0.0.1 localhost {HOST}\n")
        pod.write("/etc/backup/credentials/root", PASSWORD)
        pod.write("/etc/backup/repository/password", "password of the repository")
        pod.write("/etc/backup/trust/ca.crt", AUTHORITY.cert)
        folder(pod, "backup")
        with pod.server():
            pod.execute(
                "CREATE DATABASE cloud",
                "CREATE TABLE cloud.numbers (number INT PRIMARY KEY, noise BLOB, text VARCHAR(100))",
            )
            yield pod


@pytest.fixture(name="recorded", scope="module")
def _recorded(pod: Pod) -> Recorded:
    """A writer, under which a backup is made and the archiver is killed, with statements of all sorts."""
    ledger = Ledger()
    with writer(pod, ledger):
        with archiver(pod) as first:
            base = pod.run("database", backup(pod, "base"))
            began = int(time.time()) + 1
            pod.execute(
                "CREATE USER 'neutron'@'%' IDENTIFIED BY 'p\\'w'",
                "GRANT ALL ON cloud.* TO 'neutron'@'%'",
                "CREATE TABLE cloud.wide (id INT AUTO_INCREMENT PRIMARY KEY, noise LONGBLOB, at DATETIME(6))",
                "INSERT INTO cloud.wide (noise, at) VALUES (RANDOM_BYTES(1024), NOW(6)), (REPEAT('x', 6000000), NULL)",
                "INSERT INTO cloud.wide (noise) SELECT noise FROM cloud.wide WHERE LENGTH(noise) < 2000",
                "ALTER TABLE cloud.wide ADD COLUMN name VARCHAR(64) DEFAULT 'ü'",
                "CREATE VIEW cloud.names AS SELECT name FROM cloud.wide",
            )
            first.await_second(began + _SECONDS)
            killed = int(time.time())
            first.kill()
        with archiver(pod) as second:
            second.await_second(killed + _SECONDS)
            assert "error" not in second.facts()
            assert second.facts()["chain"] == first_chain(pod)
            # What was written since is archived before it ends.
            ended = second.recoverable()
            second.end()
    assert "error" not in base, base
    return Recorded(pod, ledger, base, began, killed, ended)


def first_chain(pod: Pod, url: str = REPOSITORY["url"]) -> str:
    """Return the only chain of an archive."""
    [path] = (pod.root / url.lstrip("/") / "archive/openstack/mariadb").iterdir()
    return path.name


def test_a_restore_has_what_was_acknowledged_until_the_second_ended(recorded: Recorded) -> None:
    seconds = {recorded.began, recorded.killed, recorded.ended, random.randint(recorded.began, recorded.ended)}
    for second in sorted(seconds):
        data = f"/to-{second}"
        folder(recorded.pod, data.strip("/"))
        result = replay(recorded.pod, recorded.base, data, second)
        assert "error" not in result, result
        pod = Pod(recorded.pod.root)
        with pod.server(data):
            numbers = [number for [number] in pod.execute("SELECT number FROM cloud.numbers ORDER BY number")]
            position = pod.execute("SELECT @@gtid_binlog_pos")
            chain = pod.execute("SELECT * FROM openstack_operator.archive")
        assert numbers == list(range(len(numbers)))
        assert recorded.ledger.acknowledged(second) <= len(numbers) <= recorded.ledger.begun(second)
        assert position == ((result["gtid"],),)
        assert chain == ()
        shutil.rmtree(recorded.pod.root / data.strip("/"))
