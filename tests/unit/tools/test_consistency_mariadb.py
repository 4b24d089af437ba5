"""Clients of list appends know which outcome an error leaves, and never take an open one for a failure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pymysql
import pytest
from pymysql.constants import CR, ER

from tools.consistency.clients import Door
from tools.consistency.history import Append, Outcome, Read
from tools.consistency.mariadb import Access, MariaDB, MariaDBSite
from tools.consistency.mariadb import MariaDBClient as Client
from tools.consistency.workload import Workload
from tools.localcluster.kubernetes import KubeError, Kubernetes

OPERATIONS = (Append(1, 7), Read(1))


@dataclass(frozen=True)
class Server(Access):
    """A server of one list, which answers one statement with an error."""

    failing: str = ""
    error: Exception | None = None
    rows: dict[int, str] = field(default_factory=dict[int, str])
    statements: list[str] = field(default_factory=list[str])
    connected: list[str] = field(default_factory=list[str])

    def connect(self, door: Door) -> Any:
        self.connected.append(door.name)
        if self.failing == "connect" and self.error:
            raise self.error
        return Connection(self)


@dataclass
class Connection:
    """A connection and its cursor in one."""

    server: Server

    def cursor(self) -> Connection:
        return self

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, statement: str, arguments: tuple[Any, ...] = ()) -> None:
        self.server.statements.append(statement.split(maxsplit=1)[0])
        if self.server.error and statement.startswith(self.server.failing):
            raise self.server.error
        if statement.startswith("INSERT"):
            key, value = arguments
            self.server.rows[key] = f"{self.server.rows.get(key, '')} {value}".strip()

    def fetchone(self) -> tuple[str] | None:
        return (self.server.rows[1],) if 1 in self.server.rows else None

    def rollback(self) -> None:
        self.server.statements.append("ROLLBACK")

    def close(self) -> None:
        self.server.statements.append("close")


def server(failing: str = "", error: Exception | None = None) -> Server:
    return Server([Door("one", "", 1), Door("two", "", 2)], "", failing=failing, error=error)


def test_transaction_returns_what_was_read() -> None:
    access = server()
    transaction = Client(access, 0).execute(OPERATIONS)
    assert transaction.outcome is Outcome.OK
    assert transaction.operations == (Append(1, 7), Read(1, (7,)))
    assert access.statements == ["START", "INSERT", "SELECT", "COMMIT"]
    assert transaction.start <= transaction.end


def test_key_without_a_row_is_an_empty_list() -> None:
    assert Client(server(), 0).execute((Read(1),)).operations == (Read(1, ()),)


LOST = pymysql.err.OperationalError(CR.CR_SERVER_LOST, "Lost connection")
DEADLOCK = pymysql.err.OperationalError(ER.LOCK_DEADLOCK, "Deadlock found")
NOT_PREPARED = pymysql.err.OperationalError(ER.UNKNOWN_COM_ERROR, "WSREP has not yet prepared node")


@pytest.mark.parametrize(
    ("failing", "error", "outcome"),
    [
        ("connect", ConnectionRefusedError(), Outcome.FAILED),
        ("INSERT", LOST, Outcome.FAILED),
        ("INSERT", DEADLOCK, Outcome.FAILED),
        ("INSERT", NOT_PREPARED, Outcome.FAILED),
        ("COMMIT", DEADLOCK, Outcome.FAILED),
        ("COMMIT", LOST, Outcome.UNKNOWN),
        ("COMMIT", NOT_PREPARED, Outcome.UNKNOWN),
        ("COMMIT", TimeoutError(), Outcome.UNKNOWN),
    ],
)
def test_outcome_depends_on_the_moment_of_the_error(failing: str, error: Exception, outcome: Outcome) -> None:
    transaction = Client(server(failing, error), 0).execute(OPERATIONS)
    assert transaction.outcome is outcome
    assert transaction.operations == OPERATIONS
    assert transaction.error


def test_refused_client_rolls_back_and_stays() -> None:
    access = server("COMMIT", DEADLOCK)
    client = Client(access, 0)
    client.execute(OPERATIONS)
    assert access.statements[-1] == "ROLLBACK"
    assert client.wait == 0
    client.execute(OPERATIONS)
    assert access.connected == ["one"]


def test_client_without_connection_takes_the_next_server() -> None:
    access = server("COMMIT", LOST)
    client = Client(access, 0)
    assert [client.execute(OPERATIONS).member for _ in range(3)] == ["one", "two", "one"]
    assert access.connected == ["one", "two", "one"]
    assert client.wait > 0


def test_workload_appends_each_value_once_and_retires_full_keys() -> None:
    workload = Workload(3, keys=2, appends=5)
    operations = [each for _ in range(200) for each in workload.transaction()]
    appends = [(each.key, each.value) for each in operations if isinstance(each, Append)]
    assert len(set(appends)) == len(appends)
    assert max(value for _, value in appends) == 5
    assert workload.keys == 2 + sum(value == 5 for _, value in appends)
    assert {each.key for each in operations} <= set(range(workload.keys))


def test_workload_of_a_seed_is_always_the_same() -> None:
    one, two = Workload(1), Workload(1)
    assert [one.transaction() for _ in range(50)] == [two.transaction() for _ in range(50)]


@dataclass(frozen=True)
class Members(MariaDBSite):
    """Three members, and what was done to them."""

    kubernetes: Kubernetes = field(default_factory=lambda: Kubernetes("existing", None))
    log: list[str] = field(default_factory=list[str])
    answer: str | KubeError = "1\n"

    def pods(self) -> list[dict[str, Any]]:
        return [{"metadata": {"name": f"store-server-{ordinal}"}} for ordinal in range(3)]

    def ask(self, member: str, statements: str) -> str:
        self.log.append(f"{member}: {statements}")
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer

    def open_members(self) -> None:
        self.log.append("open")

    def close_members(self) -> None:
        self.log.append("close")


@dataclass(frozen=True)
class Empty(Access):
    """Servers without a table."""

    def prepare(self, door: Door) -> None:
        pass


@pytest.mark.parametrize(("is_open", "first", "last"), [(True, "open", "close"), (False, "close", "store-server-2: ")])
def test_members_keep_clients_only_in_runs_at_members(*, is_open: bool, first: str, last: str) -> None:
    site = Members()
    database = MariaDB(site, Empty([Door("one", "", 1)], ""), is_open)
    database.prepare()
    assert site.log[0] == first
    database.end()
    assert site.log[-1].startswith(last)
    assert site.log.count("store-server-1: SET GLOBAL innodb_flush_log_at_trx_commit = 1") == 1


def test_member_with_an_unsafe_flush_ends_a_run_before_it_begins() -> None:
    database = MariaDB(Members(answer="0\n"), Empty([Door("one", "", 1)], ""), is_open=False)
    with pytest.raises(KubeError, match="delete its pod"):
        database.prepare()


def test_final_read_has_each_list_of_a_member() -> None:
    site = Members(answer="0\t3 1\n2\t5\n")
    transaction = MariaDB(site, Empty([], ""), is_open=False).read_all(Door("store-server-1", "", 1), 3)
    assert transaction.operations == (Read(0, (3, 1)), Read(1, ()), Read(2, (5,)))
    assert (transaction.is_final, transaction.member) == (True, "store-server-1")
    assert site.log[0].startswith("store-server-1: SET SESSION wsrep_sync_wait = 1; ")


def test_final_read_is_tried_again_while_a_member_is_away() -> None:
    database = MariaDB(Members(answer=KubeError("no such pod")), Empty([], ""), is_open=False)
    with pytest.raises(OSError, match="no such pod"):
        database.read_all(Door("store-server-1", "", 1), 3)
