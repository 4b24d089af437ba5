"""An etcd of three, spoken to by its JSON gateway, and a client that says what became of each transaction."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tools.localcluster.kubernetes import KubeError

from . import checker
from .clients import ANSWER, Database, Door, now
from .history import Outcome, Read, Transaction
from .optimistic import PROBLEMS, OptimisticClient, Version
from .site import MEMBERS, SIZED, Site

_PREFIX = "list/"
_PAGE = 1000
"""Keys of an answer: etcd sends at most two megabytes at once."""


class EtcdSite(Site):
    """An Etcd."""

    kind = "Etcd"
    images = ("etcd",)
    spec: ClassVar = {"replicas": MEMBERS, "storageSize": "1Gi", "storageClassName": SIZED}
    port = 2379

    def primary(self) -> str:
        """Return the member that leads; empty while none says that it does. Raises KubeError."""
        for member in self.members():
            with contextlib.suppress(*PROBLEMS), contextlib.closing(Gateway(member)) as gateway:
                status = gateway.call("maintenance/status", {})
                if status["leader"] == status["header"]["member_id"]:
                    return member.name
        return ""


class Gateway:
    """A connection to a member."""

    def __init__(self, door: Door, *, is_serializable: bool = False) -> None:
        self._is_serializable = is_serializable
        self._connection = http.client.HTTPConnection(door.host, door.port, timeout=ANSWER)
        self._connection.connect()

    def call(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request. Raises OSError if it is an error, or what http.client raises."""
        self._connection.request("POST", f"/v3/{path}", json.dumps(body))
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != http.HTTPStatus.OK:
            raise OSError(f"{answer.status} {text[:100].decode(errors='replace').strip()}")
        return json.loads(text)

    def read(self, keys: Iterable[int]) -> dict[int, Version]:
        """Return the present version of keys, all of one moment. Raises as `call` does."""
        wanted_keys = list(keys)
        ranges = [
            {"request_range": {"key": _name(key), **({"serializable": True} if self._is_serializable else {})}}
            for key in wanted_keys
        ]
        answer = self.call("kv/txn", {"success": ranges})
        found_lists = [each["response_range"].get("kvs", []) for each in answer["responses"]]
        return {key: _version(kvs[0]) if kvs else Version() for key, kvs in zip(wanted_keys, found_lists, strict=True)}

    def write(self, versions: Mapping[int, Version], contents: Mapping[int, Sequence[int]]) -> bool:
        """Replace lists if no list has changed since these versions; return False if one has. Raises as `call` does."""
        compare = [
            {"key": _name(key), "target": "MOD", "result": "EQUAL", "mod_revision": version.token or "0"}
            for key, version in versions.items()
        ]
        puts = [
            {"request_put": {"key": _name(key), "value": _encoded(" ".join(map(str, values)))}}
            for key, values in contents.items()
        ]
        return bool(self.call("kv/txn", {"compare": compare, "success": puts}).get("succeeded"))

    def read_all(self) -> dict[int, tuple[int, ...]]:
        """Return all lists, after all that was committed. Raises as `call` does."""
        lists: dict[int, tuple[int, ...]] = {}
        start, end = _encoded(_PREFIX), _encoded(_PREFIX[:-1] + chr(ord(_PREFIX[-1]) + 1))
        while True:
            page = self.call("kv/range", {"key": start, "range_end": end, "limit": _PAGE})
            for pair in page.get("kvs", []):
                name = base64.b64decode(pair["key"]).decode()
                lists[int(name.removeprefix(_PREFIX))] = _version(pair).values
                start = _encoded(name + "\0")
            if not page.get("more"):
                return lists

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _name(key: int) -> str:
    return _encoded(f"{_PREFIX}{key:08d}")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _version(pair: Mapping[str, Any]) -> Version:
    values = base64.b64decode(pair.get("value", "")).decode().split()
    return Version(tuple(int(each) for each in values), pair["mod_revision"])


@dataclass(frozen=True)
class Etcd(Database):
    """The database of a site."""

    site: EtcdSite
    doors: Sequence[Door]
    is_serializable: bool
    """True to read what a member has, without asking whether the others have more."""
    harm = frozenset(checker.ANOMALIES)

    @classmethod
    def of(cls, site: EtcdSite, through: str, *, is_unprotected: bool) -> Etcd:
        """Return the database with doors for clients. Raises KubeError."""
        return cls(site, [site.door()] if through == "door" else site.members(), is_unprotected)

    def prepare(self) -> None:
        """Delete the lists of an earlier run. Raises KubeError if etcd does not answer."""
        try:
            with contextlib.closing(Gateway(self.doors[0])) as gateway:
                end = _encoded(_PREFIX[:-1] + chr(ord(_PREFIX[-1]) + 1))
                gateway.call("kv/deleterange", {"key": _encoded(_PREFIX), "range_end": end})
        except PROBLEMS as error:
            raise KubeError(f"etcd does not answer: {error}") from None

    def client(self, process: int) -> OptimisticClient:
        """Return a new client."""
        return OptimisticClient(self.doors, process, lambda door: Gateway(door, is_serializable=self.is_serializable))

    def read_all(self, member: Door, keys: int) -> Transaction:
        """Return what a member has at the end. Raises OSError if it does not answer."""
        start = now()
        try:
            with contextlib.closing(Gateway(member)) as gateway:
                lists = gateway.read_all()
        except PROBLEMS as error:
            raise OSError(str(error)) from error
        reads = tuple(Read(key, lists.get(key, ())) for key in range(keys))
        return Transaction(-1, Outcome.OK, start, now(), reads, is_final=True, member=member.name)

    def facts(self) -> dict[str, str]:
        """Return the version. Raises KubeError."""
        member = self.site.pods()[0]["metadata"]["name"]
        return {"version": self.site.run(member, "etcd", "--version").splitlines()[0]}
