"""Programs of an archive in the root of an image, and a ledger of what clients wrote."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pymysql

from openstack_operator import agents
from openstack_operator.agents.mariadb.role import READER
from openstack_operator.services.backup.pods import modules
from tests.unit.agents.test_backup_real import HOST, PASSWORD, REPOSITORY, USER, Pod, children, restoration
from tests.unit.image_root import inside
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

TABLE = "CREATE TABLE cloud.numbers (number INT PRIMARY KEY, noise BLOB, text VARCHAR(100))"
URL = str(REPOSITORY["url"])


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

    def check(self, numbers: Sequence[int], second: int) -> None:
        """Check that a database has what was acknowledged until a second ended, and nothing begun later."""
        assert list(numbers) == list(range(len(numbers)))
        assert self.acknowledged(second) <= len(numbers) <= self.begun(second)


@contextmanager
def writer(connect: Callable[[], Any], ledger: Ledger, pause: float = 0.0) -> Generator[None]:
    """Write one number after the other."""
    stop = threading.Event()

    def write() -> None:
        with connect() as connection, connection.cursor() as cursor:
            while not stop.wait(pause):
                number, begin = len(ledger.entries), time.time()
                cursor.execute(f"INSERT INTO cloud.numbers VALUES ({number}, RANDOM_BYTES(100), 'ä\\0\\r\\n;')")
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
    process: Any
    ask: Callable[[], dict[str, Any]]

    def facts(self) -> dict[str, Any]:
        """Return its status; empty while it has none."""
        try:
            return self.ask()
        except OSError:
            return {}

    def recoverable(self) -> int:
        """Return the last second to which a restore can go; 0 before there is one."""
        text = self.facts().get("lastRecoverableTime")
        return int(datetime.fromisoformat(text).timestamp()) if text else 0

    def await_second(self, second: float) -> None:
        """Wait until a restore can go to a second."""
        until(f"the archive of {second}", lambda: self.process.poll() is not None or self.recoverable() >= second)
        assert self.process.poll() is None

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


def ask(port: int) -> dict[str, Any]:
    """Return the status of an archiver in this network."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=10) as answer:
        return dict(json.load(answer))


@contextmanager
def program(pod: Pod, name: str, run: Mapping[str, Any], **repository: Any) -> Generator[Any]:
    """Start a program with a repository."""
    pod.configure(run, **repository)
    env = {"TERMINATION_LOG": f"/tmp/message-{name}", "RESTIC_CACHE_DIR": "/tmp/cache", "HOME": "/nonexistent"}
    (pod.root / f"tmp/message-{name}").unlink(missing_ok=True)
    command = agents.python(*modules(name))
    with inside(pod.root, USER, *command, env=env) as process:
        yield process


@contextmanager
def replica(pod: Pod, data: str, address: str, position: str) -> Generator[Callable[[], Any]]:
    """Run a server of its own log with restored data, at the port of a pod's server but another address of the machine,
    which makes the changes of that server after a position. Yield what connects with it.
    """
    own = [f"--datadir={data}", "--socket=/tmp/replica.sock", "--pid-file=/tmp/replica.pid", "--log-bin=binlog"]
    files = [f"--ssl-{name}=/etc/mysql/tls/{file}" for name, file in (("cert", "tls.crt"), ("key", "tls.key"))]
    options = ["--server-id=2", "--log-slave-updates", f"--port={pod.port}", f"--bind-address={address}", *own, *files]

    def connect() -> Any:
        return pymysql.connect(host=address, port=pod.port, user="root", password=PASSWORD, autocommit=True)

    def answers() -> bool:
        with suppress(pymysql.err.Error), connect():
            return True
        return False

    quoted = PASSWORD.replace("\\", "\\\\")
    source = f"MASTER_HOST='127.0.0.1', MASTER_PORT={pod.port}, MASTER_USER='root', MASTER_PASSWORD='{quoted}'"
    retry = "MASTER_CONNECT_RETRY=1"
    with inside(pod.root, USER, "mariadbd", *options, env={}) as process:
        until("a replica", lambda: process.poll() is not None or answers())
        with connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SET GLOBAL gtid_slave_pos = '{position}'")
            cursor.execute(
                f"CHANGE MASTER TO {source}, MASTER_SSL_VERIFY_SERVER_CERT=0, MASTER_USE_GTID=slave_pos, {retry}"
            )
            cursor.execute("START SLAVE")
        yield connect


def settings(pod: Pod, port: int) -> dict[str, Any]:
    """Return the settings of an archiver."""
    login = {"host": HOST, "port": pod.port, "user": READER, "tls": True, "members": []}
    return {"cloud": "openstack", "database": "mariadb", **login, "seconds": 1, "port_of_status": port}


@contextmanager
def archiver(pod: Pod, **repository: Any) -> Generator[Archiver]:
    """Archive the server of a pod."""
    port = free_port()
    with program(pod, "archive", settings(pod, port), **repository) as process:
        one = Archiver(pod, process, lambda: ask(port))
        one.await_second(1)
        yield one


@contextmanager
def replaying(pod: Pod, result: Mapping[str, Any], data: str, second: int, **repository: Any) -> Generator[Any]:
    """Start the restore of a backup to the end of a second."""
    text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = restoration(result, data, cloud="openstack", pointInTime=text)
    with program(pod, "replay", run, **repository) as process:
        yield process


def replay(pod: Pod, result: Mapping[str, Any], data: str, second: int, **repository: Any) -> dict[str, Any]:
    """Restore a backup to the end of a second; return the result of the program."""
    with replaying(pod, result, data, second, **repository) as process:
        status = process.wait(TIMEOUT)
    line = (pod.root / "tmp/message-replay").read_text(encoding="utf-8")
    return {"error": line} if status else json.loads(line)


def numbers(pod: Pod) -> list[int]:
    """Return the numbers in a database."""
    return [number for [number] in pod.execute("SELECT number FROM cloud.numbers ORDER BY number")]
