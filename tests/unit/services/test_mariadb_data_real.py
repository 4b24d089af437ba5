"""Members of a real Galera cluster have the same data, and one identifier for each change, after faults and orders."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable, Generator
from itertools import count
from typing import Any

import pymysql
import pytest

from openstack_operator import agents
from openstack_operator.plan import Release
from tests.unit.galera_cluster import GaleraCluster, Node, galera_cluster, serves
from tests.unit.polling import until

pytestmark = pytest.mark.seconds

_numbers = count()
_POSITION = "SELECT @@gtid_binlog_pos"


@pytest.fixture(scope="module")
def cluster(release: Release) -> Generator[GaleraCluster]:
    with galera_cluster(release) as members:
        execute(members.nodes[0], "CREATE DATABASE log", "CREATE TABLE log.numbers (number INT PRIMARY KEY)")
        yield members


def execute(node: Node, *statements: str) -> Any:
    """Return the rows of the last of several statements."""
    with node.connect_inside() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


def insert(node: Node) -> None:
    """Commit five changes at a member."""
    execute(node, *(f"INSERT INTO log.numbers VALUES ({next(_numbers)})" for _ in range(5)))


def position(node: Node) -> str:
    """Return the identifier of the last change in a member's log, once it has all that others committed."""
    [[text]] = execute(node, "SET SESSION wsrep_sync_wait = 1", "SELECT COUNT(*) FROM log.numbers", _POSITION)
    return str(text)


def logged(node: Node) -> list[int]:
    """Return the numbers of all changes in a member's log, in its order."""
    files = [f"/var/lib/mysql/{name}" for name, _ in execute(node, "SHOW BINARY LOGS")]
    command = ["chroot", node.root, "mariadb-binlog", "--no-defaults", "--skip-gtid-strict-mode", *files]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(number) for number in re.findall(r"\tGTID 0-\d+-(\d+)", text)]


def restart_one(cluster: GaleraCluster) -> None:
    cluster.nodes[2].close()
    insert(cluster.nodes[0])
    cluster.nodes[2].start()


def empty_one(cluster: GaleraCluster) -> None:
    cluster.nodes[2].close()
    for path in (cluster.nodes[2].root / "var/lib/mysql").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    insert(cluster.nodes[0])
    cluster.nodes[2].start()


def kill_all(cluster: GaleraCluster) -> None:
    for node in cluster.nodes:
        node.close()
    for node in cluster.nodes:
        node.start()


def stop_all(cluster: GaleraCluster) -> None:
    for node in reversed(cluster.nodes):
        node.end()
        node.await_end()
    for node in cluster.nodes:
        node.start()


def change_accounts(cluster: GaleraCluster) -> None:
    execute(
        cluster.nodes[1],
        "CREATE OR REPLACE USER log IDENTIFIED BY 'password'",
        "GRANT ALL ON log.* TO log",
        "FLUSH PRIVILEGES",
        "ANALYZE TABLE log.numbers",
        "OPTIMIZE TABLE log.numbers",
    )


def renew_certificates(cluster: GaleraCluster) -> None:
    """Each member does so when its own kubelet brings the files."""
    [order] = re.findall(r"-e '(FLUSH .*)'", agents.text("mariadb/start.sh"))
    # Without certificates the server says so, after it has written its log.
    with contextlib.suppress(pymysql.err.Error):
        execute(cluster.nodes[1], order)


@pytest.mark.parametrize("fault", [renew_certificates, change_accounts, restart_one, empty_one, kill_all, stop_all])
def test_a_change_has_one_identifier_on_all_members(
    cluster: GaleraCluster, fault: Callable[[GaleraCluster], None]
) -> None:
    insert(cluster.nodes[1])
    fault(cluster)
    cluster.await_ready()
    for node in cluster.nodes:
        insert(node)
    assert len({position(node) for node in cluster.nodes}) == 1, [position(node) for node in cluster.nodes]
    for node in cluster.nodes:
        numbers = logged(node)
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), node.name
        assert numbers[-1] == int(position(node).rpartition("-")[2])


def test_a_member_refuses_changes_that_it_alone_would_have(cluster: GaleraCluster) -> None:
    with pytest.raises(Exception, match="Galera replication not supported"):
        execute(
            cluster.nodes[0], "CREATE TABLE log.local (number INT) ENGINE=MyISAM", "INSERT INTO log.local VALUES (1)"
        )
    execute(cluster.nodes[0], "DROP TABLE log.local")


def test_a_member_that_was_left_behind_gives_up_what_it_alone_has(cluster: GaleraCluster) -> None:
    """Its number of the last transaction is one that the others have by then, for another transaction."""
    starter, second, ahead = cluster.nodes
    for node in (starter, second):
        node.end()
        node.await_end()
    insert(ahead)
    ahead.close()
    for node in cluster.nodes:
        order(node, starter)
    for node in (starter, second):
        node.start()
    until("two members to serve", lambda: serves(starter, 2) and serves(second, 2))
    for _ in range(3):
        insert(starter)
    ahead.start()
    cluster.await_ready()
    for node in cluster.nodes:
        insert(node)
    contents = [
        (position(node), execute(node, "SELECT number FROM log.numbers ORDER BY number")) for node in cluster.nodes
    ]
    assert contents[0] == contents[1] == contents[2]


def order(node: Node, starter: Node) -> None:
    """Tell a member which one is to start the cluster, as the record has it."""
    for name, text in (("force", starter.name), ("token", "order")):
        node.write(f"{node.env['GALERA_RECORD']}/{name}", text)
