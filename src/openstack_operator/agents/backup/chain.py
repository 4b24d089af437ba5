"""Chains of an archive: sealed objects with the changes of one database, each of which names the change before it."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .binlog import Canary, Parser, Transaction, log_file, sequence
from .objects import BucketObjects, FolderObjects, Objects
from .repository import Repository
from .run import RunError
from .sealed import UnsealError, derive, seal, unseal

_NAME = re.compile(r"(\d{20})-(\d{20})-[0-9a-f]{32}")
_SIZE = struct.Struct(">I")
_DIGITS = 20
_LAST = 10**19
"""A number that no GTID has."""
_STEPS_BACK = 5
"""Objects before that with a change: those of an archiver that was replaced may reach further than later ones do."""
_PAGE = 1000
_LEVEL = 1
"""Level of compression: of 1 MB of row changes, level 6 takes four times as long for a tenth less."""


@dataclass(frozen=True)
class Link:
    """Beginning of a chain."""

    chain: str
    """Identifier that no other chain has."""
    begins: str
    """GTID before its first change; empty for the beginning of a log."""
    after: str = ""
    """Chain of the same database before a gap; empty for the first one, and after a restore."""
    lost_after: str = ""
    """Last GTID before the gap."""


@dataclass(frozen=True)
class Header:
    """Description of an object, which is sealed with it."""

    link: Link
    previous: str
    """GTID before the first one; that after which the chain begins for its first object."""
    first: str
    last: str
    before_last: str
    """GTID before the last one."""
    fingerprint: str
    """Fingerprint of the last transaction."""
    count: int
    canary: Canary | None
    """Newest canary in the chain, up to the end of this object."""


@dataclass(frozen=True)
class Content:
    """An object that was read and is whole."""

    name: str
    header: Header
    format: bytes
    transactions: Sequence[Transaction]


def new_chain(now: datetime, begins: str, after: str = "", lost_after: str = "") -> Link:
    """Return the beginning of a chain with a new identifier, which begins with the time."""
    return Link(f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(8)}", begins, after, lost_after)


class Archive:
    """The archive of one database of a cloud."""

    def __init__(self, objects: Objects, key: bytes, cloud: str, database: str) -> None:
        """`key` is the master key of the repository."""
        self._objects, self._folder = objects, f"archive/{cloud}/{database}"
        self._key, self._name_key = derive(key, "archive"), derive(key, "archive name")

    def chains(self) -> Sequence[str]:
        """Return the identifiers of all chains, the oldest first."""
        return self._objects.folders(self._folder)

    def append(self, header: Header, format_event: bytes, transactions: Sequence[Transaction]) -> int:
        """Store transactions as the next object of a chain; return its bytes. It is there, whole, if nothing is raised.
        Raise RunError.
        """
        text = json.dumps(asdict(header)).encode()
        content = b"".join((_SIZE.pack(len(text)), text, log_file(format_event, transactions)))
        name = self._name(header, content)
        place = self._place(header.link.chain, name)
        body = seal(self._key, place, zlib.compress(content, _LEVEL))
        if not self._objects.put_new(place, body):
            # By an earlier try, whose answer was lost, or by another archiver.
            self.read(header.link.chain, name)
        return len(body)

    def read(self, chain: str, name: str) -> Content:
        """Return an object. Raise RunError if it is missing, or not the one that was stored there."""
        place = self._place(chain, name)
        body = self._objects.read(place)
        if body is None:
            raise RunError(f"the archive has no object {place}", "ObjectDamaged")
        try:
            content = zlib.decompress(unseal(self._key, place, body))
            return self._content(name, chain, content)
        except (RunError, UnsealError, ValueError, LookupError, TypeError, struct.error, zlib.error):
            reason = "it was changed, or put in another's place, or its repository had another key"
            raise RunError(f"the object {place} of the archive is damaged: {reason}", "ObjectDamaged") from None

    def _content(self, name: str, chain: str, content: bytes) -> Content:
        [size] = _SIZE.unpack_from(content)
        header = _header(content[_SIZE.size : _SIZE.size + size])
        parser = Parser()
        transactions = [*parser.feed(content[_SIZE.size + size :]), *parser.rest()]
        numbers = [each.sequence for each in transactions]
        if (
            name != self._name(header, content)
            or header.link.chain != chain
            or len(numbers) != header.count
            or (transactions[0].gtid, transactions[-1].gtid) != (header.first, header.last)
            or numbers != list(range(numbers[0], numbers[0] + len(numbers)))
        ):
            raise ValueError
        return Content(name, header, parser.format, transactions)

    def _name(self, header: Header, content: bytes) -> str:
        digest = hmac.digest(self._name_key, content, "sha256")[:16].hex()
        return f"{sequence(header.first):0{_DIGITS}}-{sequence(header.last):0{_DIGITS}}-{digest}"

    def _place(self, chain: str, name: str) -> str:
        return f"{self._folder}/{chain}/{name}"

    def tail(self, chain: str) -> Header | None:
        """Return the header of the last object of a chain; None if it has none. Raise RunError."""
        name = self._last_until(chain, _LAST)
        return self.read(chain, name).header if name else None

    def start(self, chain: str) -> Header | None:
        """Return the header of the first object of a chain; None if it has none. Raise RunError."""
        names = self._names(chain, "", 1)
        return self.read(chain, names[0]).header if names else None

    def reach(self, chain: str) -> tuple[int, int] | None:
        """Return the numbers of the first and the last change of a chain by its names; None if it has none."""
        first, last = self._names(chain, "", 1), self._last_until(chain, _LAST)
        return (_range(first[0])[0], _range(last)[1]) if first and last else None

    def contents(self, chain: str, number: int) -> Iterator[Content]:
        """Yield the objects from the one that has a change, or some before, to the end. Raise RunError."""
        name = self._last_until(chain, number)
        for _ in range(_STEPS_BACK):
            earlier = self._last_until(chain, _range(name)[0] - 1) if name else None
            if not earlier:
                break
            name = earlier
        after = f"{_range(name)[0]:0{_DIGITS}}" if name else ""
        while names := self._names(chain, after, _PAGE):
            for name in names:
                yield self.read(chain, name)
            after = names[-1]

    def _names(self, chain: str, after: str, limit: int) -> list[str]:
        # Others may write here, too: what has another name is none of ours.
        names = self._objects.names(f"{self._folder}/{chain}", after, limit)
        return [name for name in names if _NAME.fullmatch(name)]

    def _last_until(self, chain: str, number: int) -> str | None:
        """Return the name of the last object whose first change has at most this number. A bucket lists names in one
        direction alone, so that this takes a look for each binary digit.
        """
        low, high, last = 0, number, ""
        while low <= high:
            middle = (low + high + 1) // 2
            [name] = self._names(chain, f"{middle:0{_DIGITS}}", 1) or [""]
            if name and _range(name)[0] <= number:
                last, low = name, _range(name)[0] + 1
            else:
                high = middle - 1
        if not last:
            return None
        # Several objects may begin with the same change.
        prefix = last[: _DIGITS + 1]
        return max(name for name in self._names(chain, prefix, _PAGE) if name.startswith(prefix))


def _range(name: str) -> tuple[int, int]:
    match = _NAME.fullmatch(name)
    assert match
    return int(match[1]), int(match[2])


def _header(text: bytes) -> Header:
    values: dict[str, Any] = json.loads(text)
    canary = Canary(**values["canary"]) if values["canary"] else None
    fields: dict[str, Any] = {**values, "link": Link(**values["link"]), "canary": canary}
    return Header(**fields)


def open_archive(repository: Repository, cloud: str, database: str) -> Archive:
    """Return the archive in a repository, which exists. Raise RunError, also for a wrong password."""
    objects = BucketObjects(repository.bucket) if repository.bucket else FolderObjects(Path(repository.url))
    return Archive(objects, repository.master_key(), cloud, database)
