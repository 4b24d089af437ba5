"""An OVN with three members of its northbound database, and a client that says what became of each transaction.

Lists are `external_ids` of rows in a table that ovn-northd leaves alone as long as no network refers to it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tools.localcluster.kubernetes import KubeError

from . import checker
from .clients import ANSWER, CONNECT, Database, Door, now
from .history import Outcome, Read, Transaction
from .optimistic import PROBLEMS, OptimisticClient, Version
from .site import MEMBERS, SIZED, Site

_DATABASE, _TABLE, _COLUMN = "OVN_Northbound", "DNS", "external_ids"
_PIECE = 1 << 16
READERS, _REST = 3, 0.05
"""Clients that only read, and seconds between two transactions that ask members which do not lead."""
_ELECTION = 60.0
"""Seconds that members have to agree on a leader before a run."""
_LIST = "list"
_CHANGED = frozenset({"timed out", "constraint violation", "duplicate uuid"})
"""Errors by which a database says that a list is not what the transaction waits for."""
_NOT_LEADER = "does not lead"


class OVNSite(Site):
    """An OVN without nodes and without ovn-northd."""

    kind = "OVNNetwork"
    images = ("ovn",)
    spec: ClassVar = {
        "northbound": {"replicas": MEMBERS},
        "southbound": {"replicas": 1},
        "northd": {"replicas": 0},
        "chassis": {"enabled": False},
        "storageSize": "1Gi",
        "storageClassName": SIZED,
    }
    port = 6641
    component = "nb"

    def primary(self) -> str:
        """Return the member that leads; empty while none says that it does. Raises KubeError."""
        for member in self.members():
            with contextlib.suppress(*PROBLEMS), contextlib.closing(Session(member, leader_only=True)):
                return member.name
        return ""


class Session:
    """A connection to a member. With `leader_only` it ends once the member no longer leads, as clients of OVN do it."""

    def __init__(self, door: Door, *, leader_only: bool) -> None:
        self._socket = socket.create_connection((door.host, door.port), CONNECT)
        self._socket.settimeout(ANSWER)
        self._text, self._decoder, self._number = "", json.JSONDecoder(), 0
        self._leads = True
        if leader_only:
            columns = {"Database": {"columns": ["name", "leader"]}}
            self._update(self.call("monitor", ["_Server", None, columns]))
            self._check()

    def call(self, method: str, parameters: list[Any]) -> Any:
        """Return the result of a request. Raises OSError if it is an error, or ValueError if it is no JSON."""
        self._number += 1
        self._send({"method": method, "params": parameters, "id": self._number})
        deadline = time.monotonic() + ANSWER
        while time.monotonic() < deadline:
            message = self._message()
            if message.get("method") == "echo":
                self._send({"result": message["params"], "error": None, "id": message["id"]})
            elif message.get("method") == "update":
                self._update(message["params"][1])
            elif message.get("id") == self._number:
                if message.get("error"):
                    raise OSError(f"refused: {message['error']}"[:100])
                return message["result"]
        raise TimeoutError(f"no answer within {ANSWER:.0f} s")

    def transact(self, operations: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Return the result of each operation, or its error; there is one more if the whole failed. Raises as `call`
        does.
        """
        results = self.call("transact", [_DATABASE, *operations])
        self._check()
        return results

    def read(self, keys: Iterable[int]) -> dict[int, Version]:
        """Return the present version of keys, all of one moment. Raises as `call` does."""
        wanted_keys = list(keys)
        operations = [
            {"op": "select", "table": _TABLE, "columns": [_COLUMN], "where": _row(key)} for key in wanted_keys
        ]
        results = self.transact(operations)
        return {key: _version(each["rows"]) for key, each in zip(wanted_keys, results, strict=True)}

    def write(self, versions: Mapping[int, Version], contents: Mapping[int, Sequence[int]]) -> bool:
        """Replace lists if no list has changed since these versions; return False if one has. Raises as `call` does."""
        waits = [
            {
                "op": "wait",
                "timeout": 0,
                "table": _TABLE,
                "where": _row(key),
                "columns": [_COLUMN],
                "until": "==",
                "rows": [{_COLUMN: _map(version.values)}] if version.token else [],
            }
            for key, version in versions.items()
        ]
        writes = [_written(key, values, exists=bool(versions[key].token)) for key, values in contents.items()]
        errors = [each for each in self.transact([*waits, *writes]) if each and each.get("error")]
        if unknown_errors := [each for each in errors if each["error"] not in _CHANGED]:
            raise OSError(f"{unknown_errors[0]['error']}: {unknown_errors[0].get('details', '')}")
        return not errors

    def read_all(self) -> dict[int, tuple[int, ...]]:
        """Return all lists, after all that was committed. Raises as `call` does."""
        # A member executes a transaction that writes on what all have committed, and no other.
        answer = self.transact(
            [
                {"op": "insert", "table": _TABLE, "row": {_COLUMN: ["map", [["mark", "read"]]]}},
                {"op": "select", "table": _TABLE, "columns": ["_uuid", _COLUMN], "where": []},
            ]
        )
        if problems := [each for each in answer if not each or each.get("error")]:
            raise OSError(f"refused: {problems}"[:100])
        rows = [row for row in answer[1]["rows"] if _LIST in dict(row[_COLUMN][1])]
        return {_key(row["_uuid"][1]): _version([row]).values for row in rows}

    def delete_all(self) -> None:
        """Delete all lists. Raises as `call` does."""
        self.transact([{"op": "delete", "table": _TABLE, "where": []}])

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode())

    def _message(self) -> dict[str, Any]:
        while True:
            self._text = self._text.lstrip()
            with contextlib.suppress(json.JSONDecodeError):
                message, end = self._decoder.raw_decode(self._text)
                self._text = self._text[end:]
                return message
            if not (piece := self._socket.recv(_PIECE)):
                raise OSError("closed the connection")
            self._text += piece.decode()

    def _update(self, tables: Mapping[str, Any]) -> None:
        for row in tables.get("Database", {}).values():
            if (new := row.get("new")) and new.get("name") == _DATABASE:
                self._leads = new["leader"]

    def _check(self) -> None:
        if not self._leads:
            raise OSError(_NOT_LEADER)


def _uuid(key: int) -> str:
    return f"{key:08x}-0000-4000-8000-000000000000"


def _key(uuid: str) -> int:
    return int(uuid.partition("-")[0], 16)


def _row(key: int) -> list[Any]:
    return [["_uuid", "==", ["uuid", _uuid(key)]]]


def _map(values: Sequence[int]) -> list[Any]:
    return ["map", [[_LIST, " ".join(map(str, values))]]]


def _version(rows: Sequence[Mapping[str, Any]]) -> Version:
    for row in rows:
        texts = dict(row[_COLUMN][1])
        return Version(tuple(int(each) for each in texts[_LIST].split()), texts[_LIST])
    return Version()


def _written(key: int, values: Sequence[int], *, exists: bool) -> dict[str, Any]:
    row = {_COLUMN: _map(values)}
    if exists:
        return {"op": "update", "table": _TABLE, "where": _row(key), "row": row}
    return {"op": "insert", "table": _TABLE, "uuid": _uuid(key), "row": row}


@dataclass(frozen=True)
class OVN(Database):
    """The northbound database of a site."""

    site: OVNSite
    doors: Sequence[Door]
    leader_only: bool
    harm = frozenset(checker.ANOMALIES)

    @classmethod
    def of(cls, site: OVNSite, through: str) -> OVN:
        """Return the database: its door is the member that leads. Raises KubeError."""
        return cls(site, site.members(), through == "door")

    def prepare(self) -> None:
        """Delete the lists of an earlier run. Raises KubeError if no member leads."""
        deadline = time.monotonic() + _ELECTION
        while time.monotonic() < deadline:
            for member in self.doors:
                with contextlib.suppress(*PROBLEMS), contextlib.closing(Session(member, leader_only=True)) as session:
                    return session.delete_all()
            time.sleep(1)
        raise KubeError("no member of the northbound database leads")

    def client(self, process: int) -> OptimisticClient:
        """Return a new client."""
        if self.leader_only:
            return OptimisticClient(self.doors, process, lambda door: Session(door, leader_only=True))
        # A member that is cut off answers old reads until it knows of a write that it cannot complete: writers go to
        # the leader, and leave the others time to hear of each end.
        is_writer = process >= READERS
        return OptimisticClient(self.doors, process, lambda door: Session(door, leader_only=is_writer), _REST)

    def read_all(self, member: Door, keys: int) -> Transaction:
        """Return what a member has at the end. Raises OSError if it does not answer."""
        start = now()
        try:
            with contextlib.closing(Session(member, leader_only=False)) as session:
                lists = session.read_all()
        except PROBLEMS as error:
            raise OSError(str(error)) from error
        reads = tuple(Read(key, lists.get(key, ())) for key in range(keys))
        return Transaction(-1, Outcome.OK, start, now(), reads, is_final=True, member=member.name)

    def facts(self) -> dict[str, str]:
        """Return the version. Raises KubeError."""
        member = self.site.pods()[0]["metadata"]["name"]
        return {"version": self.site.run(member, "ovsdb-server", "--version").splitlines()[0]}
