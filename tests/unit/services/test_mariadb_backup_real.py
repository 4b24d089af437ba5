"""A member of a real Galera cluster that no client uses is backed up, and the primary is not disturbed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pymysql
import pytest

from openstack_operator.agents.mariadb.role import READER
from openstack_operator.plan import Release
from openstack_operator.services.mariadb.backup_account import SCHEMA
from tests.unit.agents.test_backup_real import SLOW, Pod, children, folder, restoration
from tests.unit.galera_cluster import BACKUP_PASSWORD, PASSWORD, GaleraCluster, Node, galera_cluster
from tests.unit.image_root import image_root
from tests.unit.polling import TIMEOUT, until

pytestmark = pytest.mark.seconds

_THOUSANDS = 40
_ACCOUNT = f"SELECT COUNT(*) FROM mysql.user WHERE User = '{READER}'"
_POSITION = "SELECT @@gtid_binlog_pos"
_STATE = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'wsrep_local_state_comment'"
_READERS = f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '{READER}'"


@pytest.fixture(name="galera", scope="module")
def _galera(release: Release) -> Generator[GaleraCluster]:
    with galera_cluster(release) as cluster:
        primary = cluster.nodes[0]
        cluster.label(primary)
        rows = ", ".join(f"({number}, RANDOM_BYTES(1024))" for number in range(1000))
        copied = "SELECT id + {}000, RANDOM_BYTES(1024) FROM cloud.steady WHERE id < 1000"
        execute(
            primary,
            "CREATE DATABASE cloud",
            "CREATE TABLE cloud.steady (id INT PRIMARY KEY, noise BLOB)",
            f"INSERT INTO cloud.steady VALUES {rows}",
            *(f"INSERT INTO cloud.steady {copied.format(number)}" for number in range(1, _THOUSANDS)),
            "CREATE TABLE cloud.numbers (number INT PRIMARY KEY)",
        )
        until("the account of backups", lambda: execute(primary, _ACCOUNT) == ((1,),))
        for node in cluster.nodes:
            node.write("/tmp/reader.cnf", f"[client]\nuser={READER}\npassword={quoted(BACKUP_PASSWORD)}\n")
            pod = Pod(node.root)
            pod.write("/etc/backup/credentials/password", BACKUP_PASSWORD)
            pod.write("/etc/backup/repository/password", "password of the repository")
            folder(pod, "backup")
        yield cluster


@pytest.fixture
def cluster(galera: GaleraCluster) -> GaleraCluster:
    """A cluster whose first member is the primary."""
    galera.await_ready()
    until("all members to be in step", lambda: {state(node) for node in galera.nodes} == {"Synced"})
    return galera


def quoted(text: str) -> str:
    """Return a text as a file of options takes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def connect(node: Node, password: str = BACKUP_PASSWORD, *, is_beside: bool = False) -> Any:
    """Return a connection of the account of backups: through the network, or from beside the member."""
    host, network = ("127.0.0.1", node.network) if is_beside else (node.address, node.outside)

    def open_connection() -> Any:
        return pymysql.connect(host=host, user=READER, password=password, autocommit=True)

    return network.do(open_connection)


def execute(node: Node, *statements: str) -> Any:
    """Return the rows of the last of several statements."""
    with node.connect_inside() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def state(node: Node) -> str:
    """Return what a member says of itself within the cluster."""
    [[text]] = execute(node, _STATE)
    return str(text)


def flow_control(node: Node) -> float:
    """Return the seconds for which a member had to wait for slower ones."""
    name = "WSREP_FLOW_CONTROL_PAUSED_NS"
    statement = f"SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = '{name}'"
    [[nanoseconds]] = execute(node, statement)
    return int(nanoseconds) / 1e9


def run(node: Node, cloud: str) -> dict[str, Any]:
    """Return the settings of a backup that reads this member."""
    host = f"{node.name}.{node.env['GALERA_DOMAIN']}"
    login = {"host": host, "port": 3306, "user": READER, "datadir": "/var/lib/mysql", "tls": False}
    return {"backup": "monday", "cloud": cloud, "database": "mariadb", **login}


@dataclass
class Writer:
    """A client that commits one number after the other at a member, each of which has an identifier in the log."""

    node: Node
    seconds: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    """Of each commit the time at which it began, and how long it took."""

    @contextmanager
    def writes(self) -> Generator[None]:
        stop, errors = threading.Event(), list[Exception]()

        def write() -> None:
            try:
                with self.node.connect() as connection, connection.cursor() as cursor:
                    while not stop.is_set():
                        began = time.monotonic()
                        cursor.execute(f"INSERT INTO cloud.numbers VALUES ({len(self.seconds)})")
                        self.seconds.append((began, time.monotonic() - began))
            except (pymysql.err.Error, OSError) as error:
                errors.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            until("some numbers", lambda: errors or len(self.seconds) > 500)
            yield
        finally:
            stop.set()
            thread.join(TIMEOUT)
        assert not errors, errors


def text_of(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    median, late = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    return (
        f"{len(ordered)} commits, median {median * 1e3:.1f}, p99 {late * 1e3:.1f}, longest {ordered[-1] * 1e3:.0f} ms"
    )


def test_a_backup_of_a_member_without_clients_is_whole(cluster: GaleraCluster) -> None:
    primary, member, _ = cluster.nodes
    [[before]] = execute(primary, "DELETE FROM cloud.numbers", _POSITION)
    checksum = execute(primary, "CHECKSUM TABLE cloud.steady")
    writer, stray, waited = Writer(primary), member.connect(), flow_control(primary)
    with writer.writes():
        began = time.monotonic()
        result = member.network.do(lambda: Pod(member.root).run("database", run(member, "whole")))
        ended = time.monotonic()
        until("a client there to be ended", lambda: is_ended(stray))
    assert "error" not in result, result
    for name, seconds in (
        ("before", [took for at, took in writer.seconds if at < began]),
        ("during", [took for at, took in writer.seconds if began <= at < ended]),
    ):
        print(f"{name} a backup of {ended - began:.1f} s: {text_of(seconds)}")
    print(f"flow control: {flow_control(primary) - waited:.3f} s; the member is {state(member)}")
    numbers = restored_numbers(member, result, checksum)
    assert numbers == list(range(len(numbers)))
    sequence = [int(text.rpartition("-")[2]) for text in (str(before), result["gtid"])]
    assert len(numbers) == sequence[1] - sequence[0] > 0


def is_ended(connection: Any) -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (pymysql.err.Error, OSError):
        return True
    return False


def restored_numbers(member: Node, result: Mapping[str, Any], checksum: Any) -> list[int]:
    """Return the numbers in a database that is restored from a backup in a member's root."""
    with image_root("mariadb") as root:
        pod = Pod(root, PASSWORD)
        shutil.copytree(member.root / "backup", root / "backup")
        for path in (root / "backup", *(root / "backup").rglob("*")):
            os.chown(path, 999, 999)
        pod.write("/etc/backup/repository/password", "password of the repository")
        folder(pod, "restored")
        assert "error" not in (answer := pod.run("restore", restoration(result, "/restored"))), answer
        with pod.server("/restored"):
            assert pod.execute("CHECKSUM TABLE cloud.steady") == checksum
            return [number for [number] in pod.execute("SELECT number FROM cloud.numbers ORDER BY number")]


def test_a_restored_schema_is_that_of_all_members(cluster: GaleraCluster) -> None:
    """A client of another schema writes on meanwhile."""
    primary, member, other = cluster.nodes
    execute(
        primary,
        "CREATE DATABASE identity",
        "CREATE TABLE identity.domain (id INT PRIMARY KEY)",
        "CREATE TABLE identity.person (id INT PRIMARY KEY AUTO_INCREMENT, domain INT NOT NULL,"
        " FOREIGN KEY (domain) REFERENCES domain (id))",
        "INSERT INTO identity.domain VALUES (1)",
        "INSERT INTO identity.person (domain) SELECT 1 FROM cloud.steady",
        "DELETE FROM cloud.numbers",
    )
    checksum = execute(primary, "CHECKSUM TABLE identity.domain, identity.person")
    backup = member.network.do(lambda: Pod(member.root).run("database", run(member, "of-identity")))
    assert "error" not in backup, backup
    execute(primary, "DELETE FROM identity.person")
    shutil.copytree(member.root / "backup", primary.root / "backup", dirs_exist_ok=True)
    for path in (primary.root / "backup", *(primary.root / "backup").rglob("*")):
        os.chown(path, 999, 999)
    pod = Pod(primary.root)
    pod.write("/etc/backup/admin/password", PASSWORD)
    folder(pod, "var/lib/scratch")
    login = {**run(primary, "of-identity"), "user": "root", "folder": "/var/lib/scratch"}
    order = {**login, **restoration(backup, "/var/lib/scratch/data"), "schemas": ["identity"]}
    with Writer(primary).writes():
        result = primary.network.do(lambda: pod.run("schema_restore", order))
    assert "error" not in result, result
    [place] = result["places"]
    for node in (primary, member, other):
        until("all changes", lambda node=node: execute(node, f"SHOW TABLES FROM {place['earlier']} LIKE 'person'"))
        assert execute(node, "CHECKSUM TABLE identity.domain, identity.person") == checksum
        assert execute(node, f"SELECT COUNT(*) FROM {place['earlier']}.person") == ((0,),)


def test_a_backup_that_is_killed_leaves_nothing_at_its_member(cluster: GaleraCluster) -> None:
    primary, member, _ = cluster.nodes
    pod, data = Pod(member.root), member.root / "var/lib/mysql"
    pod.configure(run(member, "killed"), uploadKiB=SLOW)
    before, packs = set(data.rglob("*")), set((member.root / "backup").rglob("*"))
    with ExitStack() as stack:
        process = member.network.do(lambda: stack.enter_context(pod.start("database")))
        until("its connections", lambda: execute(member, _READERS)[0][0])
        until("a part of it", lambda: set((member.root / "backup").rglob("*")) > packs)
        for child in children(process.pid):
            os.kill(child, signal.SIGKILL)
        process.wait(TIMEOUT)
        began = time.monotonic()
        until("its connections to be gone", lambda: execute(member, _READERS) == ((0,),))
        print(f"{time.monotonic() - began:.1f} s after the kill it had no connection; the member is {state(member)}")
    until("the member to be in step", lambda: state(member) == "Synced")
    # The server begins its list of definitions that change meanwhile again with each backup.
    new_names = {path.name for path in set(data.rglob("*")) - before}
    assert {name for name in new_names if not name.startswith(("binlog", "ddl.log"))} == set()
    execute(primary, "CREATE TABLE cloud.later (number INT)")
    until("the member to follow", lambda: execute(member, "SHOW TABLES FROM cloud LIKE 'later'"))


def test_a_backup_that_dies_with_its_locks_gives_its_member_back(cluster: GaleraCluster) -> None:
    """It dies where it holds most: the member writes nothing then, and the cluster does not wait for it."""
    primary, member, _ = cluster.nodes
    writer, waited = Writer(primary), flow_control(primary)
    execute(primary, "DELETE FROM cloud.numbers")
    connection = connect(member)
    with connection.cursor() as cursor:
        for stage in ("START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"):
            cursor.execute(f"BACKUP STAGE {stage}")
            print(f"{stage}: the member is {state(member)}, ready: {member.facts()['ready']}")
    with writer.writes():
        held = len(writer.seconds)
        until("some more numbers", lambda: len(writer.seconds) > held + 2000)
        print(f"while a member is locked: {text_of([took for _, took in writer.seconds])}")
        # Its pod is gone: nobody tells the server so but the network.
        connection._force_close()
        began = time.monotonic()
        until("the member to be in step", lambda: state(member) == "Synced")
        print(
            f"in step again {time.monotonic() - began:.1f} s later; flow control {flow_control(primary) - waited:.3f} s"
        )
    assert execute(member, "SET SESSION wsrep_sync_wait = 1", "SELECT COUNT(*) FROM cloud.numbers") == (
        (len(writer.seconds),),
    )


def test_the_account_reads_changes_and_writes_in_its_own_schema_alone(cluster: GaleraCluster) -> None:
    primary, member, other = cluster.nodes
    with connect(primary) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {SCHEMA}")
        cursor.execute(f"CREATE TABLE {SCHEMA}.canary (number INT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {SCHEMA}.canary VALUES (1)")
        cursor.execute(f"DELETE FROM {SCHEMA}.canary")
        for refused in (
            "SELECT * FROM cloud.numbers",
            "INSERT INTO cloud.numbers VALUES (-1)",
            "CREATE TABLE cloud.mine (number INT)",
            f"DROP TABLE {SCHEMA}.canary",
            "PURGE BINARY LOGS BEFORE NOW()",
            "SET GLOBAL wsrep_on = OFF",
            "SET SESSION sql_log_bin = 0",
            "SET SESSION wsrep_on = OFF",
            "CREATE USER another",
            "SELECT * FROM mysql.global_priv",
        ):
            with pytest.raises(pymysql.err.Error, match="denied"):
                cursor.execute(refused)
    options = ["--defaults-file=/tmp/reader.cnf", "--read-from-remote-server", f"--host={other.address}"]
    command = ["chroot", member.root, "mariadb-binlog", *options, "--to-last-log", "binlog.000001"]
    text = member.network.do(lambda: subprocess.run(command, capture_output=True, text=True, check=True)).stdout
    assert f"CREATE TABLE {SCHEMA}.canary" in text
    assert BACKUP_PASSWORD not in text
    assert re.search(r"IDENTIFIED BY PASSWORD '\*[0-9A-F]{40}'", text)
    member.cut()
    try:
        until("the member to be cut off", lambda: member.facts()["status"] != "Primary")
        with pytest.raises(pymysql.err.Error, match="WSREP has not yet prepared node"):
            connect(member, is_beside=True).query(f"INSERT INTO {SCHEMA}.canary VALUES (2)")
    finally:
        member.heal()


def test_the_account_is_made_once(cluster: GaleraCluster) -> None:
    primary = cluster.nodes[0]
    [[before]] = execute(primary, _POSITION)
    with primary.connect_inside() as connection, connection.cursor() as cursor:

        def connections() -> int:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Connections'")
            return int(cursor.fetchone()[1])

        start = connections()
        until("two more looks at it", lambda: connections() > start + 1)
    assert execute(primary, _POSITION) == ((before,),)


def test_another_password_is_that_of_the_primary(cluster: GaleraCluster) -> None:
    primary, member, _ = cluster.nodes
    path = primary.env["BACKUP_PASSWORD_FILE"]
    try:
        primary.write(path, "another")
        until("the new password", lambda: accepts(member, "another"))
        assert not accepts(member, BACKUP_PASSWORD)
    finally:
        primary.write(path, BACKUP_PASSWORD)
    until("the old password", lambda: accepts(member, BACKUP_PASSWORD))


def accepts(node: Node, password: str) -> bool:
    """Return True if the account of backups has this password."""
    try:
        connect(node, password).close()
    except pymysql.err.OperationalError as error:
        assert "Access denied" in str(error)
        return False
    return True
