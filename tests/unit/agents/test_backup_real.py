"""A real MariaDB is backed up while it serves, and restored; restic has the repository in a folder."""

from __future__ import annotations

import gzip
import json
import os
import signal
import ssl
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pymysql
import pytest

from openstack_operator import agents, pki
from openstack_operator.agents.mariadb.role import READER
from openstack_operator.services.backup.pods import modules
from openstack_operator.services.mariadb.backup_account import PROGRAMS, SCHEMA
from tests.unit.image_root import image_root, inside, listens
from tests.unit.polling import TIMEOUT, until
from tools.localcluster.ports import free_port

pytestmark = pytest.mark.seconds

USER, PASSWORD, HOST = 999, 'root "password" \\ of #1', "mariadb.openstack.svc"
BACKUP_PASSWORD = """backup's "password" \\ of #2"""
NOW = datetime.now(UTC)
IMAGES = ("mariadb", "mariadb-10.11")
AUTHORITY, OTHER = pki.authority("ours", "pki", NOW), pki.authority("theirs", "pki", NOW)
REPOSITORY = {"url": "/backup/cloud", "pathStyle": False, "region": "", "uploadKiB": 0, "downloadKiB": 0}
SLOW = 2048
"""KiB in a second, so that a program is killed long before it has ended."""
_THOUSANDS = 40
_ACCOUNT = f"SELECT * FROM information_schema.SCHEMA_PRIVILEGES WHERE GRANTEE = '''{READER}''@''%'''"
_READ_ONLY = f"""
mount --bind /var/lib/mysql /var/lib/mysql
mount -o remount,bind,ro /var/lib/mysql
exec setpriv --reuid={USER} --regid={USER} --clear-groups "$0" "$@"
"""


@dataclass
class Pod:
    """The root of a container of the image, in which programs find their files."""

    root: Path
    password: str = PASSWORD
    port: int = field(default_factory=free_port)

    def write(self, path: str, text: str) -> None:
        """Write a file of a Secret."""
        file = self.root / path.lstrip("/")
        for folder in reversed(file.relative_to(self.root).parents):
            if not (self.root / folder).exists():
                (self.root / folder).mkdir()
                os.chown(self.root / folder, USER, USER)
        file.unlink(missing_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o400)
        os.chown(file, USER, USER)

    def configure(self, run: Mapping[str, Any], **repository: Any) -> None:
        """Write the settings of a run."""
        self.write("/etc/backup/run/run.json", json.dumps(run))
        self.write("/etc/backup/repository/repository.json", json.dumps({**REPOSITORY, **repository}))

    @contextmanager
    def start(self, name: str) -> Generator[Any]:
        """Start one of the programs."""
        env = {"TERMINATION_LOG": "/tmp/message", "RESTIC_CACHE_DIR": "/tmp/cache", "HOME": "/nonexistent"}
        (self.root / "tmp/message").unlink(missing_ok=True)
        command = agents.python(*modules(name))
        if name == "database":
            # The volume of the member is mounted read only.
            command = ["sh", "-ec", _READ_ONLY, *command]
        with inside(self.root, 0 if name == "database" else USER, *command, env=env) as process:
            yield process

    def run(self, name: str, run: Mapping[str, Any], **repository: Any) -> dict[str, Any]:
        """Return the result of a program."""
        self.configure(run, **repository)
        with self.start(name) as process:
            status = process.wait(TIMEOUT)
            line = (self.root / "tmp/message").read_text(encoding="utf-8")
            result: dict[str, Any] = {"error": line} if status else json.loads(line)
            return result

    def restic(self, *words: str) -> Any:
        """Return what restic says in JSON."""
        env = {"RESTIC_PASSWORD_FILE": "/etc/backup/repository/password", "RESTIC_CACHE_DIR": "/tmp/cache"}
        command = ["restic", f"--repo={REPOSITORY['url']}", "--json", *words]
        with inside(self.root, USER, *command, env=env, output=-1) as process:
            return json.loads(process.communicate(timeout=TIMEOUT)[0])

    @contextmanager
    def server(self, data: str = "/var/lib/mysql") -> Generator[None]:
        """Run a server with a data directory."""
        files = {"cert": "/etc/mysql/tls/tls.crt", "key": "/etc/mysql/tls/tls.key"}
        tls = [f"--ssl-{name}={file}" for name, file in files.items() if (self.root / file.lstrip("/")).exists()]
        is_first = data == "/var/lib/mysql"
        socket = "/run/mysqld/mysqld.sock" if is_first else f"/tmp/{self.port}.sock"
        own = [f"--datadir={data}", f"--socket={socket}", f"--pid-file=/tmp/{self.port}.pid"]
        options = [f"--port={self.port}", "--bind-address=127.0.0.1", *own, *tls]
        env = {
            "MARIADB_ROOT_PASSWORD_FILE": "/etc/mysql/credentials/root",
            "BACKUP_USER": READER,
            "BACKUP_SCHEMA": SCHEMA,
            "BACKUP_PASSWORD_FILE": "/etc/backup/credentials/password",
            "BACKUP_TLS": "SSL",
        }
        words = ["mariadb-start"] if is_first else ["mariadbd"]
        command = agents.shell(*PROGRAMS, "mariadb/run.sh", words=words, options="-c")
        with inside(self.root, USER, *command, *options, "--log-bin=binlog", "--server-id=1", env=env) as process:
            until("a server", lambda: process.poll() is not None or self.answers())
            assert process.poll() is None
            yield
            for child in children(process.pid):
                os.kill(child, signal.SIGTERM)
            assert process.wait(TIMEOUT) == 0

    def answers(self) -> bool:
        """Return True if the server does."""
        with suppress(pymysql.err.Error):
            self.execute("SELECT 1")
            return True
        return False

    def connect(self) -> Any:
        """Return a connection to the server."""
        return pymysql.connect(host="127.0.0.1", port=self.port, user="root", password=self.password, autocommit=True)

    def execute(self, *statements: str) -> Any:
        """Return the rows of the last of several statements."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(name="pod", scope="module", params=IMAGES)
def _pod(request: pytest.FixtureRequest) -> Generator[Pod]:
    yield from with_server(request.param)


def with_server(image: str = IMAGES[0]) -> Generator[Pod]:
    """Yield a pod whose server has some data."""
    with image_root(image) as root:
        if not (root / "usr/bin/restic").exists():
            pytest.skip("the image has no restic yet; python -m images build mariadb")
        pod = Pod(root)
        certificate = pki.issue(AUTHORITY, pki.Request(common="mariadb", names=frozenset({HOST})), "drawn", NOW)
        files = {"tls.crt": certificate.cert, "tls.key": certificate.key}
        for name, text in files.items():
            pod.write(f"/etc/mysql/tls/{name}", text)
        pod.write("/etc/hosts", f"127.0.0.1 localhost {HOST}\n")
        pod.write("/etc/mysql/credentials/root", PASSWORD)
        pod.write("/etc/backup/credentials/password", BACKUP_PASSWORD)
        pod.write("/etc/backup/repository/password", "password of the repository")
        pod.write("/etc/backup/trust/ca.crt", AUTHORITY.cert)
        folder(pod, "backup")
        with pod.server():
            rows = ", ".join(f"({number}, RANDOM_BYTES(1024), '')" for number in range(1000))
            copied = "SELECT id + {}000, RANDOM_BYTES(1024), '' FROM cloud.steady WHERE id < 1000"
            pod.execute(
                "CREATE DATABASE cloud",
                "CREATE TABLE cloud.steady (id INT PRIMARY KEY, noise BLOB, text TEXT)",
                f"INSERT INTO cloud.steady VALUES {rows}",
                *(f"INSERT INTO cloud.steady {copied.format(number)}" for number in range(1, _THOUSANDS)),
                "CREATE TABLE cloud.numbers (number INT PRIMARY KEY)",
            )
            until("its account", lambda: pod.execute(_ACCOUNT))
            yield pod


def folder(pod: Pod, name: str) -> Path:
    """Make an empty volume."""
    path = pod.root / name
    path.mkdir()
    os.chown(path, USER, USER)
    return path


def backup(pod: Pod, name: str, **changes: Any) -> dict[str, Any]:
    """Return the settings of a backup of one database."""
    login = {"host": HOST, "port": pod.port, "user": READER, "datadir": "/var/lib/mysql", "tls": True}
    return {"backup": name, "cloud": "openstack", "database": "mariadb", **login, **changes}


def restoration(result: Mapping[str, Any], data: str, **changes: Any) -> dict[str, Any]:
    """Return the settings of the restore of a backup's database."""
    stored = {name: result[name] for name in ("snapshot", "server", "gtid")}
    return {"database": "mariadb", "datadir": data, "restore": "uid-1", **stored, **changes}


@contextmanager
def writer(pod: Pod) -> Generator[None]:
    """Commit one number after the other, each of which has an identifier in the log."""
    stop = threading.Event()

    def write() -> None:
        number = 0
        with pod.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute(f"INSERT INTO cloud.numbers VALUES ({number})")
                number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        until("a number", lambda: pod.execute("SELECT COUNT(*) FROM cloud.numbers")[0][0])
        yield
    finally:
        stop.set()
        thread.join(TIMEOUT)


def test_a_backup_under_a_writer_has_all_of_one_moment(pod: Pod) -> None:
    [[before]] = pod.execute("DELETE FROM cloud.numbers", "SELECT @@gtid_binlog_pos")
    checksum = pod.execute("CHECKSUM TABLE cloud.steady")
    with writer(pod):
        result = pod.run("database", backup(pod, "under-writer"))
    assert "error" not in result, result
    assert result["server"].endswith("-MariaDB")
    assert result["bytes"] > _THOUSANDS * 1_000_000
    folder(pod, "restored")
    restored = pod.run("restore", restoration(result, "/restored"))
    assert {**restored, "seconds": 0} == {
        "schemas": ["cloud", "mysql", "sys"],
        "bytes": result["bytes"],
        "seconds": 0,
        "gtid": result["gtid"],
    }
    second = Pod(pod.root)
    with second.server("/restored"):
        assert second.execute("CHECKSUM TABLE cloud.steady") == checksum
        numbers = [number for [number] in second.execute("SELECT number FROM cloud.numbers ORDER BY number")]
    assert numbers == list(range(len(numbers)))
    sequence = [int(text.rpartition("-")[2]) for text in (before, result["gtid"])]
    assert len(numbers) == sequence[1] - sequence[0]


def test_a_backup_that_is_killed_leaves_no_snapshot(pod: Pod) -> None:
    pod.run("database", backup(pod, "first"))
    snapshots = pod.restic("snapshots")
    pod.execute("UPDATE cloud.steady SET noise = RANDOM_BYTES(1024)")
    for number in (signal.SIGKILL, signal.SIGTERM):
        pod.configure(backup(pod, "killed"), uploadKiB=SLOW)
        packs = files_of(pod)
        with pod.start("database") as process:
            until("a part of it", lambda packs=packs: files_of(pod) > packs)
            for child in children(process.pid):
                os.kill(child, number)
            process.wait(TIMEOUT)
    assert "ended before its work was complete" in (pod.root / "tmp/message").read_text()
    assert pod.restic("snapshots") == snapshots
    assert "error" not in pod.run("database", backup(pod, "after"))


def files_of(pod: Pod) -> set[Path]:
    return set((pod.root / "backup/cloud/data").rglob("*"))


def test_a_restore_that_is_killed_begins_again(pod: Pod) -> None:
    data = folder(pod, "twice")
    result = pod.run("database", backup(pod, "for-two-tries"))
    pod.configure(restoration(result, "/twice"), downloadKiB=SLOW)
    with pod.start("restore"):
        until("a part of it", (data / "ibdata1").exists)
    (data / "left").write_text("")
    assert (data / ".restoring").exists()
    assert "error" not in pod.run("restore", restoration(result, "/twice"))
    assert not (data / ".restoring").exists()
    assert not (data / "left").exists()
    assert "is not empty" in pod.run("restore", restoration(result, "/twice", restore="uid-2"))["error"]
    # Its result is still known, and the data stay as they are.
    (data / "ibdata1").touch()
    before = (data / "ibdata1").stat().st_mtime_ns
    assert pod.run("restore", restoration(result, "/twice"))["gtid"] == result["gtid"]
    assert (data / "ibdata1").stat().st_mtime_ns == before
    with Pod(pod.root).server("/twice"):
        # As if the mark of an earlier try came back.
        (data / ".restoring").touch()
        error = pod.run("restore", restoration(result, "/twice"))["error"]
    assert "a server uses this volume" in error
    assert (data / "ibdata1").exists()


def test_data_that_were_changed_in_the_repository_are_refused(pod: Pod) -> None:
    result = pod.run("database", backup(pod, "changed"), url="/backup/changed")
    pack = max((pod.root / "backup/changed/data").rglob("*"), key=lambda path: path.stat().st_size)
    flip(pack)
    folder(pod, "refused")
    error = pod.run("restore", restoration(result, "/refused"), url="/backup/changed")["error"]
    assert "the repository /backup/changed is damaged" in error
    assert pack.name[:8] in error


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 1
    path.chmod(0o600)
    path.write_bytes(body)


def test_another_password_of_the_repository_is_refused(pod: Pod) -> None:
    pod.run("database", backup(pod, "password"), url="/backup/password")
    pod.write("/etc/backup/repository/password", "another one")
    try:
        error = pod.run("database", backup(pod, "password"), url="/backup/password")["error"]
    finally:
        pod.write("/etc/backup/repository/password", "password of the repository")
    assert error.startswith("the password does not open the repository /backup/password")


def test_a_server_that_refuses_is_named(pod: Pod) -> None:
    error = pod.run("database", backup(pod, "login", user="another"))["error"]
    assert "mariadb-backup failed: Failed to connect to MariaDB server: Access denied for user 'another'" in error
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        pymysql.connect(host="127.0.0.1", port=pod.port, user=READER, password=BACKUP_PASSWORD, ssl_disabled=True)
    pymysql.connect(
        host="127.0.0.1", port=pod.port, user=READER, password=BACKUP_PASSWORD, ssl_verify_cert=False
    ).close()
    pod.write("/etc/backup/trust/ca.crt", OTHER.cert)
    error = pod.run("database", backup(pod, "authority"))["error"]
    pod.write("/etc/backup/trust/ca.crt", AUTHORITY.cert)
    assert "is its certificate of the authority in trust/ca.crt?" in error
    assert pod.restic("snapshots", "--tag=backup=login") == pod.restic("snapshots", "--tag=backup=authority") == []


def test_programs_at_once_create_one_repository(pod: Pod) -> None:
    modules = [f"backup/{module}.py" for module in ("run", "bucket", "repository")]
    [_, option, program] = agents.python(*modules)
    create = f"{program}\nwith open_repository(CONFIG) as repository: repository.create()"
    pod.configure({}, url="/backup/at-once")
    with ExitStack() as stack:
        processes = [stack.enter_context(inside(pod.root, USER, "python3", option, create, env={})) for _ in range(4)]
        assert [process.wait(TIMEOUT) for process in processes] == [0] * 4
    assert len(list((pod.root / "backup/at-once/keys").iterdir())) == 1


def test_a_whole_backup_is_stored_once_its_databases_are(pod: Pod) -> None:
    result = pod.run("database", backup(pod, "whole"))
    (pod.root / "etc/backup/contents").mkdir(exist_ok=True)
    packed = pod.root / "etc/backup/contents/contents.json.gz"
    packed.write_bytes(gzip.compress(json.dumps({"resources": ["a"]}).encode()))
    run = {"backup": "whole", "cloud": "openstack", "schedule": "", "manifest": {"databases": [{"snapshot": "0" * 64}]}}
    assert "has no snapshot 0000" in pod.run("manifest", run)["error"]
    run["manifest"] = {"databases": [{"name": "mariadb", "snapshot": result["snapshot"]}]}
    stored = pod.run("manifest", run)
    assert datetime.fromisoformat(stored["taken"]).tzinfo
    [snapshot] = pod.restic("snapshots", "--tag=kind=manifest")
    assert snapshot["id"] == stored["snapshot"]
    assert snapshot["tags"] == ["kind=manifest", "backup=whole", "schedule=-"]
    serve_newest(pod, {"resources": ["a"]}, result["snapshot"])


def serve_newest(pod: Pod, contents: Any, database: str) -> None:
    """Check what the operator reads of the newest backup."""
    pair = pki.issue(AUTHORITY, pki.Request(common="contents", names=frozenset({"localhost"})), "drawn", NOW)
    for name, text in {"tls.crt": pair.cert, "tls.key": pair.key, "token": "token"}.items():
        pod.write(f"/etc/backup/channel/{name}", text)
    pod.configure({"backup": "", "cloud": "openstack"})
    port = free_port()
    [python, option, program] = agents.python(*modules("contents"))
    command = [python, option, program.replace("PORT = 8443", f"PORT = {port}")]
    trust = ssl.create_default_context(cadata=AUTHORITY.cert)
    env = {"TERMINATION_LOG": "/tmp/message", "RESTIC_CACHE_DIR": "/tmp/cache"}
    with (
        inside(pod.root, USER, *command, env=env) as process,
        httpx.Client(verify=trust, trust_env=False, timeout=TIMEOUT) as client,
    ):
        until("the contents", lambda: process.poll() is not None or listens(port))
        answer = client.get(f"https://localhost:{port}/contents", headers={"Authorization": "Bearer token"}).json()
    assert answer["contents"] == contents
    assert [each["snapshot"] for each in answer["manifest"]["databases"]] == [database]
