"""A MariaDB of three, and a client that says what became of each transaction."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pymysql
from msgspec import structs
from pymysql.constants import ER

from tools.cloud.view import conditions
from tools.localcluster.kubernetes import KubeError, ours

from . import checker
from .clients import ANSWER, CONNECT, PAUSE, Database, Door, now
from .history import Append, Operation, Outcome, Read, Transaction
from .site import MEMBERS, NAME, SIZED, Site

ISOLATION = ("REPEATABLE READ", "SERIALIZABLE")
_REFUSED = frozenset({ER.LOCK_DEADLOCK, ER.LOCK_WAIT_TIMEOUT, ER.CHECKREAD})
"""Errors of COMMIT by which the server says that it has rolled back: a deadlock is also what the certification of
Galera answers. All others leave open what became of the transaction.
"""
_SCHEMA = (
    "CREATE DATABASE IF NOT EXISTS consistency",
    "DROP TABLE IF EXISTS consistency.lists",
    "CREATE TABLE consistency.lists (name INT PRIMARY KEY, content TEXT NOT NULL) ENGINE=InnoDB",
)
_READ = "SELECT content FROM consistency.lists WHERE name = %s"
_APPEND = (
    "INSERT INTO consistency.lists VALUES (%s, %s) "
    "ON DUPLICATE KEY UPDATE content = CONCAT(content, ' ', VALUES(content))"
)
SAFE_FLUSH, _UNSAFE_FLUSH = 1, 0
"""Values of innodb_flush_log_at_trx_commit: a commit is on the disk before its acknowledgment, or within a second."""
_FLUSH = "innodb_flush_log_at_trx_commit"
_SET_FLUSH = f"SET GLOBAL {_FLUSH} = %s"
_READ_ALL = "SET SESSION wsrep_sync_wait = 1; SELECT name, content FROM consistency.lists"
_ROLE, _PAUSED = "openstack.k8s.io/role", "openstack.k8s.io/paused"
_OPERATOR = 60.0
"""Seconds that the operator has to act."""
_FACTS = ("version", _FLUSH, "innodb_snapshot_isolation", "wsrep_sync_wait")
HARM = frozenset(
    {checker.LOST, checker.DIVERGED, checker.ABORTED, checker.INTERMEDIATE, checker.UNWRITTEN, checker.DUPLICATE}
    | {checker.INCOMPATIBLE, "G0", "G1c"}
)
"""Anomalies that no isolation level of MariaDB excuses. REPEATABLE READ allows the others. A value that vanished is not
among them, unless its commit was acknowledged: InnoDB shows a commit to others before it is on the disk, and a power
cut in between takes it back. docs/evidence/consistency.md counts these.
"""


class MariaDBSite(Site):
    """A MariaDB."""

    kind = "MariaDB"
    images = ("mariadb", "mariadb-10.11")
    old_version = "10.11"
    spec: ClassVar = {"replicas": MEMBERS, "storageSize": "4Gi", "storageClassName": SIZED}
    port = 3306

    def primary(self) -> str:
        """Return the member that takes the clients; empty while there is none. Raises KubeError."""
        roles = {pod["metadata"]["name"]: pod["metadata"].get("labels", {}).get(_ROLE) for pod in self.pods()}
        return next((name for name, role in roles.items() if role == "primary"), "")

    def facts(self) -> dict[str, str]:
        """Return the version and the settings on which the result depends, by the first member. Raises KubeError."""
        statement = f"SELECT {', '.join(f'@@GLOBAL.{name}' for name in _FACTS)}"
        answer = self.ask(self.pods()[0]["metadata"]["name"], statement)
        return dict(zip(_FACTS, answer.strip().split("\t"), strict=True))

    def ask(self, member: str, statements: str) -> str:
        """Return what a member answers through its socket: it ends connections through the network, unless it is the
        primary. Raises KubeError.
        """
        return self.run(member, "mariadb", "-u", "mysql", "-BNe", statements)

    def open_members(self) -> None:
        """Let each member keep its clients: one that has no label does. Raises KubeError."""
        self._annotate(f"{_PAUSED}=each member takes clients")
        self._await("the operator to pause", self._is_paused)
        for pod in self.pods():
            self.kubernetes.kubectl("label", "pod", pod["metadata"]["name"], "-n", self.namespace, f"{_ROLE}-")

    def close_members(self) -> None:
        """Let the primary alone keep its clients. Raises KubeError."""
        self._annotate(f"{_PAUSED}-")
        self._await("a member to be the primary", lambda: bool(self.primary()))

    def _annotate(self, annotation: str) -> None:
        self.kubernetes.kubectl("annotate", ours("mariadb"), NAME, "-n", self.namespace, "--overwrite", annotation)

    def _is_paused(self) -> bool:
        resource = self.kubernetes.get(ours("mariadb"), NAME, "-n", self.namespace)
        return conditions(resource).get("Paused", {}).get("status") == "True"

    @staticmethod
    def _await(event: str, look: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _OPERATOR
        while not look():
            if time.monotonic() > deadline:
                raise KubeError(f"waited {_OPERATOR:.0f} s in vain for {event}")
            time.sleep(1)


@dataclass(frozen=True)
class Access:
    """Settings that all clients of a run share."""

    doors: Sequence[Door]
    password: str
    isolation: str = ISOLATION[0]
    has_unsafe_flush: bool = False
    """True to let servers acknowledge commits that they have not written down yet."""

    def connect(self, door: Door) -> Any:
        """Return a connection. Raises pymysql.err.Error or OSError."""
        connection = pymysql.connect(
            host=door.host,
            port=door.port,
            user="root",
            password=self.password,
            connect_timeout=CONNECT,
            read_timeout=ANSWER,
            write_timeout=ANSWER,
            autocommit=True,
        )
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {self.isolation}")
            # Whenever a client comes back: the server may have started anew, with its own setting.
            if self.has_unsafe_flush:
                cursor.execute(_SET_FLUSH, (_UNSAFE_FLUSH,))
        return connection

    def prepare(self, door: Door) -> None:
        """Create an empty table. Raises pymysql.err.Error or OSError."""
        with contextlib.closing(self.connect(door)) as connection, connection.cursor() as cursor:
            for statement in _SCHEMA:
                cursor.execute(statement)


class MariaDBClient:
    """One client. It stays with a server until the connection fails, and takes the next one then."""

    def __init__(self, access: Access, process: int) -> None:
        self._access = access
        self._process = process
        self._turn = process
        self._connection: Any = None
        self.wait = 0.0
        """Seconds to wait before the next transaction."""

    def execute(self, operations: Sequence[Operation]) -> Transaction:
        """Execute a transaction once, and return it with its outcome."""
        start, door, is_sent, results, problem = now(), self._door, False, list(operations), ""
        outcome = Outcome.FAILED
        self.wait = 0.0
        try:
            connection = self._connection = self._connection or self._access.connect(door)
            with connection.cursor() as cursor:
                cursor.execute("START TRANSACTION")
                for place, operation in enumerate(operations):
                    results[place] = _executed(cursor, operation)
                is_sent = True
                cursor.execute("COMMIT")
            outcome = Outcome.OK
        except (pymysql.err.Error, OSError) as error:
            code = error.args[0] if error.args else None
            # Without COMMIT no server commits. All else that goes wrong after it was sent leaves the outcome open.
            outcome = Outcome.UNKNOWN if is_sent and code not in _REFUSED else Outcome.FAILED
            problem = f"{type(error).__name__} {error}"[:120]
            self._recover(code)
        if outcome is not Outcome.OK:
            results = list(operations)
        return Transaction(self._process, outcome, start, now(), tuple(results), error=problem, member=door.name)

    @property
    def _door(self) -> Door:
        return self._access.doors[self._turn % len(self._access.doors)]

    def _recover(self, code: object) -> None:
        """Roll back after a refusal; after anything else, close the connection and take the next server."""
        if code in _REFUSED:
            try:
                self._connection.rollback()
            except (pymysql.err.Error, OSError):
                self.close()
            return
        self.close()
        self._turn += 1
        self.wait = PAUSE

    def close(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        with contextlib.suppress(pymysql.err.Error, OSError):
            if connection:
                connection.close()


def _executed(cursor: Any, operation: Operation) -> Operation:
    if isinstance(operation, Append):
        cursor.execute(_APPEND, (operation.key, str(operation.value)))
        return operation
    cursor.execute(_READ, (operation.key,))
    row = cursor.fetchone()
    return structs.replace(operation, values=_values(row[0]) if row else ())


def _values(content: str) -> tuple[int, ...]:
    return tuple(int(each) for each in content.split())


@dataclass(frozen=True)
class MariaDB(Database):
    """The databases of a site."""

    site: MariaDBSite
    access: Access
    is_open: bool
    """True if clients use each member, not the primary alone."""
    harm = HARM
    _flushes: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, site: MariaDBSite, through: str, isolation: str, *, is_unprotected: bool) -> MariaDB:
        """Return the databases with doors for clients. Raises KubeError."""
        is_open = through != "door"
        doors = site.members() if is_open else [site.door()]
        access = Access(doors, site.secret(f"{NAME}-credentials", "root"), isolation, is_unprotected)
        return cls(site, access, is_open)

    def prepare(self) -> None:
        """Create an empty table. Raises KubeError if a member is less safe than it should be."""
        if self.is_open:
            self.site.open_members()
        else:
            # An earlier run may have been interrupted.
            self.site.close_members()
        self.access.prepare(self.access.doors[0])
        for pod in self.site.pods():
            name = pod["metadata"]["name"]
            self._flushes[name] = self.site.ask(name, f"SELECT @@GLOBAL.{_FLUSH}").strip()
        if not self.access.has_unsafe_flush and set(self._flushes.values()) != {str(SAFE_FLUSH)}:
            raise KubeError("a member acknowledges commits before they are on the disk; delete its pod, and try again")

    def client(self, process: int) -> MariaDBClient:
        """Return a new client."""
        return MariaDBClient(self.access, process)

    def read_all(self, member: Door, keys: int) -> Transaction:
        """Return what a member has at the end. Raises OSError if it does not answer."""
        start = now()
        try:
            rows = self.site.ask(member.name, _READ_ALL).splitlines()
        except KubeError as error:
            raise OSError(str(error)) from error
        lists = {int(name): _values(content) for name, _, content in (row.partition("\t") for row in rows)}
        reads = tuple(Read(key, lists.get(key, ())) for key in range(keys))
        return Transaction(-1, Outcome.OK, start, now(), reads, is_final=True, member=member.name)

    def facts(self) -> dict[str, str]:
        """Return the version and the settings. Raises KubeError."""
        return self.site.facts()

    def end(self) -> None:
        """Make the members as safe as they were. Raises KubeError."""
        for name, flush in self._flushes.items():
            self.site.ask(name, f"SET GLOBAL {_FLUSH} = {flush}")
        if self.is_open:
            self.site.close_members()
