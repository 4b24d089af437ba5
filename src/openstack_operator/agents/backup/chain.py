"""Chains of an archive: sealed objects with the changes of one database, each of which names the change before it."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from .binlog import Canary, Parser, Transaction, log_file, sequence
from .objects import BucketObjects, FolderObjects, Objects
from .repository import Repository
from .run import RunError
from .sealed import UnsealError, derive, seal, unseal

_NAME = re.compile(r"(?P<stem>([0-9]{20})-([0-9]{20})-[0-9a-f]{32}(?P<merged>-merged)?)-(?P<proof>[0-9a-f]{16})")
_CHAIN_NAME = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{16}")
_DATABASE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Name of a resource."""
_SIZE = struct.Struct(">I")
_DIGITS = 20
_LAST = 10**19
"""A number that no GTID has."""
_STEPS_BACK = 5
"""Objects before that with a change: those of an archiver that was replaced may reach further than later ones do."""
_PAGE = 1000
_MOST_FOREIGN = 10_000
"""Foreign objects that are counted."""
_LONGEST_NAMED = 150
"""Characters of a foreign name in a message."""
_MOST_UNREADABLE = 100
"""Objects of a chain that are left out in search of one that can be read."""
_LOOKS = 3
"""Looks at the names of a chain while objects are merged."""
_LEVEL = 1
"""Level of compression: of 1 MB of row changes, level 6 takes four times as long for a tenth less."""


class UnreadableError(RunError):
    """An object with a name of the archive is missing, or has another content."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "ObjectDamaged")


class MissingError(UnreadableError):
    """An object is missing, perhaps since its changes were merged into another one."""


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
    """The archive of one database of a cloud. Objects of others beside it have no name of the archive, which takes its
    key, and are left out.
    """

    def __init__(self, objects: Objects, key: bytes, cloud: str, database: str) -> None:
        """`key` is the master key of the repository."""
        self._objects, self._folder = objects, f"archive/{cloud}/{database}"
        self._key, self._name_key = derive(key, "archive"), derive(key, "archive name")
        self._proof_key = derive(key, "proof of an archive name")
        self.foreign: set[str] = set()
        """Places of objects and folders that were left out, at most some thousand of them."""

    def remark(self) -> str:
        """Return a part of a sentence that names foreign objects; empty if none was found."""
        if not self.foreign:
            return ""
        number, example = len(self.foreign), ascii(min(self.foreign))[1:-1][:_LONGEST_NAMED]
        return (
            f"; {number} objects or folders were left out, since this archive gave none of them such a name: they are"
            f" of others, were renamed, or their repository had another key, such as {example}"
        )

    def chains(self) -> Sequence[str]:
        """Return the identifiers of all chains, the oldest first."""
        names = self._objects.folders(self._folder)
        self._leave_out(name for name in names if not _CHAIN_NAME.fullmatch(name))
        return [name for name in names if _CHAIN_NAME.fullmatch(name)]

    def append(self, header: Header, format_event: bytes, transactions: Sequence[Transaction]) -> int:
        """Store transactions as the next object of a chain; return its bytes. It is there, whole, if nothing is raised.
        Raise RunError.
        """
        return self._store(header, format_event, transactions, is_merged=False)[1]

    def merge(self, header: Header, format_event: bytes, transactions: Sequence[Transaction]) -> None:
        """Store the transactions of several objects as one, and read it again. Raise RunError."""
        name, _ = self._store(header, format_event, transactions, is_merged=True)
        changes = self.read(header.link.chain, name).transactions
        if [each.events for each in changes] != [each.events for each in transactions]:
            raise RunError(f"the store returns other changes than were stored as {name}", "ObjectDamaged")

    def remove(self, chain: str, name: str) -> None:
        """Remove an object, if it is there. Raise RunError: DeletionRefusedError if the account may not."""
        self._objects.remove(self._place(chain, name))

    def _store(
        self, header: Header, format_event: bytes, transactions: Sequence[Transaction], *, is_merged: bool
    ) -> tuple[str, int]:
        """Store an object; return its name and its bytes."""
        text = json.dumps(asdict(header)).encode()
        content = b"".join((_SIZE.pack(len(text)), text, log_file(format_event, transactions)))
        name = self._name(header, content, is_merged=is_merged)
        place = self._place(header.link.chain, name)
        body = seal(self._key, place, zlib.compress(content, _LEVEL))
        if not self._objects.put_new(place, body):
            # By an earlier try, whose answer was lost, or by another archiver.
            self.read(header.link.chain, name)
        return name, len(body)

    def read(self, chain: str, name: str) -> Content:
        """Return an object. Raise MissingError if it is missing, and UnreadableError if it is not the one that was
        stored there.
        """
        place = self._place(chain, name)
        body = self._objects.read(place)
        if body is None:
            raise MissingError(f"the archive has no object {place}")
        try:
            content = zlib.decompress(unseal(self._key, place, body))
            return self._content(name, chain, content)
        except (RunError, UnsealError, ValueError, LookupError, TypeError, struct.error, zlib.error):
            reason = "it was changed, or put in another's place"
            raise UnreadableError(f"the object {place} of the archive is damaged: {reason}") from None

    def _content(self, name: str, chain: str, content: bytes) -> Content:
        [size] = _SIZE.unpack_from(content)
        header = _header(content[_SIZE.size : _SIZE.size + size])
        parser = Parser()
        transactions = [*parser.feed(content[_SIZE.size + size :]), *parser.rest()]
        numbers = [each.sequence for each in transactions]
        if (
            name != self._name(header, content, is_merged=is_merged(name))
            or header.link.chain != chain
            or len(numbers) != header.count
            or (transactions[0].gtid, transactions[-1].gtid) != (header.first, header.last)
            or numbers != list(range(numbers[0], numbers[0] + len(numbers)))
        ):
            raise ValueError
        return Content(name, header, parser.format, transactions)

    def _name(self, header: Header, content: bytes, *, is_merged: bool) -> str:
        digest = hmac.digest(self._name_key, content, "sha256")[:16].hex()
        stem = f"{sequence(header.first):0{_DIGITS}}-{sequence(header.last):0{_DIGITS}}-{digest}"
        stem += "-merged" if is_merged else ""
        return f"{stem}-{self._proof(header.link.chain, stem)}"

    def _proof(self, chain: str, stem: str) -> str:
        """Return the end of a name, which takes the key: a name is believed before its object is read, which is perhaps
        large.
        """
        return hmac.digest(self._proof_key, self._place(chain, stem).encode(), "sha256")[:8].hex()

    def _is_own(self, chain: str, name: str) -> bool:
        match = _NAME.fullmatch(name)
        return match is not None and hmac.compare_digest(match["proof"], self._proof(chain, match["stem"]))

    def _place(self, chain: str, name: str) -> str:
        return f"{self._folder}/{chain}/{name}"

    def _leave_out(self, names: Iterable[str]) -> None:
        for name in names:
            if len(self.foreign) < _MOST_FOREIGN:
                self.foreign.add(name)

    def tail(self, chain: str) -> Header | None:
        """Return the header of the last object of a chain that can be read; None if it has none. The changes of later
        ones are then stored once more. Raise RunError.
        """
        return self._readable_header(chain, lambda: self._backwards(chain, _LAST))

    def start(self, chain: str) -> Header | None:
        """Return the header of the first object of a chain that can be read; None if it has none. Raise RunError."""
        return self._readable_header(chain, lambda: self.names(chain))

    def _readable_header(self, chain: str, names: Callable[[], Iterable[str]]) -> Header | None:
        error: UnreadableError | None = None
        for looks_left in reversed(range(_LOOKS)):
            for name in islice(names(), _MOST_UNREADABLE):
                try:
                    return self.read(chain, name).header
                except UnreadableError as unreadable:
                    error = error or unreadable
                    if isinstance(unreadable, MissingError) and looks_left:
                        # Another one has its changes since.
                        break
            else:
                break
        if error:
            raise error
        return None

    def reach(self, chain: str) -> tuple[int, int] | None:
        """Return the numbers of the first and the last change of a chain by its names; None if it has none."""
        oldest, newest = next(self.names(chain), None), next(self._backwards(chain, _LAST), None)
        return (span(oldest)[0], span(newest)[1]) if oldest and newest else None

    def names(self, chain: str, after: str = "") -> Iterator[str]:
        """Yield the names of all objects of a chain after one, in their order. Raise RunError."""
        while names := self._names(chain, after, _PAGE):
            yield from names
            after = names[-1]

    def contents(self, chain: str, number: int) -> Iterator[Content]:
        """Yield the objects from the one that has a change, or some before, to the end. Changes that are in several
        come several times. Raise RunError for an object that cannot be read, unless others have its changes.
        """
        reach, unreadable = number - 1, list[tuple[str, UnreadableError]]()
        for name in self._from(chain, number):
            try:
                content = self.read(chain, name)
            except UnreadableError as error:
                unreadable.append((name, error))
                continue
            if span(name)[0] > reach + 1:
                yield from (bridges := self._bridges(chain, reach + 1, span(name)[0]))
                reach = max(reach, *(span(each.name)[1] for each in bridges), 0)
                _check(unreadable, reach, span(name)[0])
            yield content
            reach = max(reach, span(name)[1])
        _check(unreadable, reach, _LAST)

    def _from(self, chain: str, number: int) -> Iterator[str]:
        """Yield the names from an object with a change, or some before, to the end."""
        earlier = list(islice(self._backwards(chain, number), _STEPS_BACK + 1))
        if earlier and not any(span(name)[1] >= number for name in earlier):
            # One that was merged may begin long before.
            earlier += self._covering(chain, number)[:1]
        name = min(earlier, default="")
        if name:
            yield name
        yield from self.names(chain, name)

    def _bridges(self, chain: str, number: int, end: int) -> list[Content]:
        """Return objects, from anywhere in the chain, that have the changes from a number on until another one."""
        bridges: list[Content] = []
        while number < end:
            for name in self._covering(chain, number):
                try:
                    bridges.append(self.read(chain, name))
                    break
                except UnreadableError:
                    continue
            else:
                break
            number = span(bridges[-1].name)[1] + 1
        return bridges

    def _covering(self, chain: str, number: int) -> list[str]:
        """Return the names of all objects that have a change, those that reach furthest first."""
        names = takewhile(lambda name: span(name)[0] <= number, self.names(chain))
        return sorted((name for name in names if span(name)[1] >= number), key=span, reverse=True)

    def _names(self, chain: str, after: str, limit: int) -> list[str]:
        """Return at most `limit` names of a chain after one; fewer only at its end."""
        names: list[str] = []
        size = limit
        while len(names) < limit and (page := self._objects.names(f"{self._folder}/{chain}", after, size)):
            own_names = [name for name in page if self._is_own(chain, name)]
            self._leave_out(f"{chain}/{name}" for name in {*page} - {*own_names})
            names, after, size = names + own_names, page[-1], _PAGE
        return names[:limit]

    def _backwards(self, chain: str, number: int) -> Iterator[str]:
        """Yield the names of the objects whose first change has at most this number, the last one first."""
        while name := self._last_until(chain, number):
            # Several objects may begin with the same change.
            prefix = name[: _DIGITS + 1]
            alike = takewhile(lambda each: each.startswith(prefix), self.names(chain, prefix))  # noqa: B023
            yield from reversed([*alike])
            number = span(name)[0] - 1

    def _last_until(self, chain: str, number: int) -> str | None:
        """Return the name of an object that begins with the last change that has at most this number and with which one
        does. A bucket lists names in one direction alone, so that this takes a look for each binary digit.
        """
        low, high, last = 0, number, ""
        while low <= high:
            middle = (low + high + 1) // 2
            [name] = self._names(chain, f"{middle:0{_DIGITS}}", 1) or [""]
            if name and span(name)[0] <= number:
                last, low = name, span(name)[0] + 1
            else:
                high = middle - 1
        return last or None


def span(name: str) -> tuple[int, int]:
    """Return the numbers of the first and the last change of an object by its name."""
    match = _NAME.fullmatch(name)
    assert match
    return int(match[2]), int(match[3])


def is_merged(name: str) -> bool:
    """Return True for an object whose changes were in several before."""
    match = _NAME.fullmatch(name)
    return match is not None and match["merged"] is not None


def _check(unreadable: Sequence[tuple[str, UnreadableError]], reach: int, end: int) -> None:
    """Raise the error of an object with changes after `reach` and before `end`, which no other one has."""
    if reach + 1 < end:
        for name, error in unreadable:
            if span(name)[1] > reach:
                raise error


def _header(text: bytes) -> Header:
    values: dict[str, Any] = json.loads(text)
    canary = Canary(**values["canary"]) if values["canary"] else None
    fields: dict[str, Any] = {**values, "link": Link(**values["link"]), "canary": canary}
    return Header(**fields)


def open_archive(repository: Repository, cloud: str, database: str) -> Archive:
    """Return the archive in a repository, which exists. Raise RunError, also for a wrong password."""
    return Archive(_objects(repository), repository.master_key(), cloud, database)


def open_archives(repository: Repository, cloud: str) -> Mapping[str, Archive]:
    """Return all archives of a cloud by the names of their databases. Raise RunError."""
    objects = _objects(repository)
    names = [name for name in objects.folders(f"archive/{cloud}") if _DATABASE.fullmatch(name)]
    key = repository.master_key() if names else b""
    return {name: Archive(objects, key, cloud, name) for name in names}


def _objects(repository: Repository) -> Objects:
    return BucketObjects(repository.bucket) if repository.bucket else FolderObjects(Path(repository.url))
