"""Members of a real Galera cluster end the connections of clients that another member takes."""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import pymysql
import pytest

from openstack_operator.plan import Release
from tests.unit.galera_cluster import GaleraCluster, Node, galera_cluster, serves
from tests.unit.polling import until

pytestmark = pytest.mark.seconds

_TABLE = (
    "CREATE DATABASE IF NOT EXISTS fence",
    "CREATE OR REPLACE TABLE fence.numbers (number INT PRIMARY KEY) ENGINE=InnoDB",
)
_COUNT = "SELECT COUNT(*) FROM fence.numbers"
_CLIENTS = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE host LIKE '%:%'"


@pytest.fixture(scope="module")
def galera(release: Release) -> Generator[GaleraCluster]:
    with galera_cluster(release) as cluster:
        yield cluster


@pytest.fixture
def cluster(galera: GaleraCluster) -> Generator[GaleraCluster]:
    """A cluster whose first member is the primary, and an empty table."""
    galera.await_ready()
    galera.label(galera.nodes[0])
    with galera.nodes[0].connect_inside() as connection:
        for statement in _TABLE:
            ask(connection, statement)
    yield galera
    for node in galera.nodes:
        node.heal()
    galera.await_ready()


def ask(connection: Any, statement: str) -> Any:
    """Return the value that a statement selects; None if it selects nothing."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        row = cursor.fetchone()
    return row[0] if row else None


def is_ended(connection: Any) -> bool:
    try:
        return not ask(connection, "SELECT 1")
    except (pymysql.err.Error, OSError):
        return True


def looks(node: Node) -> int:
    """How often a member was asked something, which its own program does all the time."""
    with node.connect_inside() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        return int(cursor.fetchone()[1])


def await_looks(node: Node) -> None:
    start = looks(node)
    until("some more looks", lambda: looks(node) > start + 60)


def test_clients_of_a_primary_that_was_cut_off_read_nothing_old(cluster: GaleraCluster) -> None:
    old, new, third = cluster.nodes
    idle, reader, writer = (old.connect() for _ in range(3))
    assert ask(reader, _COUNT) == 0
    ask(writer, "START TRANSACTION")
    ask(writer, "INSERT INTO fence.numbers VALUES (1)")
    with old.connect_inside() as inside, ThreadPoolExecutor(1) as pool:
        old.cut()
        question = pool.submit(ask, reader, _COUNT)
        until("the others to go on", lambda: serves(new, 2) and serves(third, 2))
        until("the old primary to end its clients", lambda: ask(inside, _CLIENTS) == 0)
        assert old.facts()["status"] != "Primary"
        # The kubelet of the old one is cut off, too: its label stays.
        new.label("primary")
        with new.connect() as client:
            ask(client, "INSERT INTO fence.numbers VALUES (2)")
        old.heal()
        cluster.await_ready()
        with pytest.raises((pymysql.err.Error, OSError)):
            question.result()
        assert is_ended(idle)
        assert is_ended(writer)
        assert ask(inside, _COUNT) == 1, "the socket's clients stay, and read"
    late = old.connect()
    until("a client to be ended that came by an old way", lambda: is_ended(late))
    old.label("backup")
    with new.connect() as client:
        await_looks(new)
        assert ask(client, _COUNT) == 1


def busy(node: Node, stopping: Event) -> tuple[int, float]:
    """Return how many transactions a client began before its connection ended, and when it did."""
    count = 0
    connection = node.connect()
    try:
        while not stopping.is_set():
            ask(connection, "START TRANSACTION")
            ask(connection, _COUNT)
            ask(connection, "COMMIT")
            count += 1
    except (pymysql.err.Error, OSError):
        pass
    return count, time.monotonic()


def test_a_hand_over_ends_clients_between_transactions(cluster: GaleraCluster) -> None:
    old, new, _ = cluster.nodes
    writer, stopping = old.connect(), Event()
    ask(writer, "START TRANSACTION")
    ask(writer, "INSERT INTO fence.numbers VALUES (3)")
    # Long enough that its seconds say so.
    until("its transaction to be old", lambda: ask(writer, "SELECT SLEEP(0.5)") == 0 and age(old) > 5)
    with ThreadPoolExecutor(4) as pool, old.connect_inside() as inside:
        clients: list[Future[tuple[int, float]]] = [pool.submit(busy, old, stopping) for _ in range(4)]
        until("clients to be busy", lambda: ask(inside, _CLIENTS) == 5)
        start = time.monotonic()
        new.label("primary")
        old.label("backup")
        ends = [client.result() for client in clients]
        print(f"busy clients were ended {max(end for _, end in ends) - start:.1f} s after the labels moved")
        # A thread takes its time to end.
        until("that of the old transaction to be left", lambda: ask(inside, _CLIENTS) == 1)
        ask(writer, "COMMIT")
        until("its client to be ended, too", lambda: is_ended(writer))
        assert ask(inside, _COUNT) == 1
    with new.connect() as client:
        await_looks(new)
        assert ask(client, _COUNT) == 1


def test_a_member_that_ends_hands_busy_clients_over(cluster: GaleraCluster) -> None:
    old, new, _ = cluster.nodes
    stopping = Event()
    with ThreadPoolExecutor(4) as pool, new.connect_inside() as inside:
        clients: list[Future[tuple[int, float]]] = [pool.submit(busy, old, stopping) for _ in range(4)]
        with old.connect_inside() as connection:
            until("clients to be busy", lambda: ask(connection, _CLIENTS) == 4)
        old.end()
        with new.connect() as client:
            start = time.monotonic()
            new.label("primary")
            ask(client, "INSERT INTO fence.numbers VALUES (5)")
        ends = [client.result() for client in clients]
        print(f"busy clients were ended {max(end for _, end in ends) - start:.1f} s after the label came")
        old.await_end()
        assert ask(inside, _COUNT) == 1
    # As a new pod, which has no label yet.
    old.label("")
    old.start()
    cluster.await_ready()


def age(node: Node) -> int:
    """Seconds of the oldest transaction."""
    with node.connect_inside() as connection:
        statement = "SELECT TIMESTAMPDIFF(SECOND, MIN(trx_started), NOW()) FROM information_schema.INNODB_TRX"
        return int(ask(connection, statement) or 0)


def test_clients_stay_where_no_label_says_who_takes_them(cluster: GaleraCluster) -> None:
    cluster.label(None)
    clients = [node.connect() for node in cluster.nodes]
    for node in cluster.nodes:
        await_looks(node)
    assert not any(is_ended(client) for client in clients)


def test_a_member_receives_all_data_from_one_that_is_fenced(cluster: GaleraCluster) -> None:
    """State transfers come from members that do not take the clients, by connections through the socket."""
    primary, backup, lost = cluster.nodes
    stray = backup.connect()
    until("the backup to end its clients", lambda: is_ended(stray))
    assert backup.facts()["role"] == "backup"
    with primary.connect() as client:
        ask(client, "INSERT INTO fence.numbers VALUES (4)")
        lost.write("/etc/mysql/conf.d/donor.cnf", f"[mysqld]\nwsrep_sst_donor = {backup.name}\n")
        # Its program removes data that a transfer left unfinished.
        (lost.root / "var/lib/mysql/.sst").mkdir()
        with lost.connect_inside() as inside:
            ask(inside, "SHUTDOWN")
        until("the member to be away", lambda: serves(primary, 2))
        cluster.await_ready()
        assert ask(client, _COUNT) == 1
    with lost.connect_inside() as inside:
        assert ask(inside, _COUNT) == 1
