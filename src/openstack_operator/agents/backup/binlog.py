"""Transactions in a binary log of MariaDB, as `mariadb-binlog --raw` writes it."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .run import RunError

MAGIC = b"\xfebin"
_HEADER = struct.Struct("<IBIIIH")
"""Time, type, number of the server, bytes of the event, next position, flags."""
_QUERY, _FORMAT, _XID, _TABLE_MAP, _XA_PREPARE, _GTID, _COMPRESSED_QUERY = 2, 15, 16, 19, 38, 162, 165
_ROWS_V1, _ROWS_V2 = (23, 24, 25), (30, 31, 32)
_UPDATES = (24, 31)
_NO_TRANSACTION = (3, 4, 27, 161, 163, 164)
"""Types of events that belong to a file or a connection: stop, rotation, heartbeat, checkpoint, list of GTIDs,
encryption, which the server takes away before it sends events."""
_STANDALONE = 1
"""Flag of a GTID whose transaction is one statement, without a commit of its own."""
_ENDS = (b"COMMIT", b"ROLLBACK")
_CHECKSUM = 4
_CREATED = slice(71, 75)
"""Bytes of an event of the format with the time of its file."""
_LARGEST_EVENT = 1 << 30
_CANARIES = b"openstack_operator.canary"
"""Table to which the archive writes each second."""
_CANARY_ROW = struct.Struct("<IQQ")
"""Slot, number, and microseconds since 1970."""
_GTID_TEXT = re.compile(r"0-(\d{1,10})-(\d{1,19})")


@dataclass(frozen=True)
class Canary:
    """A row that the archive writes each second."""

    number: int
    time: int
    """Microseconds since 1970, by the clock of the server that wrote it."""


@dataclass(frozen=True)
class Transaction:
    """A transaction of the log."""

    gtid: str
    time: int
    """Second since 1970 in which its commit began, by the clock of the server at which it did."""
    events: bytes
    fingerprint: str
    """Digest of what it changes, the same in the logs of all members."""
    canaries: tuple[Canary, ...] = ()

    @property
    def sequence(self) -> int:
        """Number of its GTID."""
        return sequence(self.gtid)


def sequence(gtid: str) -> int:
    """Return the number of a GTID of domain 0. Raise RunError for any other one."""
    match = _GTID_TEXT.fullmatch(gtid)
    if not match:
        text = f"the position {gtid!r} is not one GTID of domain 0, the only one that an archive can follow"
        raise RunError(text, "UnsupportedPosition")
    return int(match[2])


@dataclass
class _Group:
    """Events of a transaction that has perhaps not ended."""

    gtid: str
    time: int
    is_standalone: bool
    events: list[bytes] = field(default_factory=list[bytes])
    changes: list[bytes] = field(default_factory=list[bytes])
    """Parts that are the same in the logs of all members."""
    tables: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    canaries: list[Canary] = field(default_factory=list[Canary])

    def end(self) -> Transaction:
        digest = hashlib.sha256(b"".join((self.gtid.encode(), *self.changes))).hexdigest()[:32]
        return Transaction(self.gtid, self.time, b"".join(self.events), digest, tuple(self.canaries))


class Parser:
    """Reader of one file of a log, which may grow."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._group: _Group | None = None
        self._checksum = 0
        self._has_magic = False
        self.format = b""
        """Event that describes the format of all others; empty before it was read."""

    def feed(self, data: bytes) -> Iterator[Transaction]:
        """Yield the transactions that end in these bytes, which follow those before. Raise RunError for what is no log,
        or belongs to another domain than 0.
        """
        self._buffer += data
        if not self._has_magic:
            if len(self._buffer) < len(MAGIC):
                return
            if not self._buffer.startswith(MAGIC):
                raise RunError("a file of the binary log does not begin as one")
            self._has_magic = True
            del self._buffer[: len(MAGIC)]
        position = 0
        while len(self._buffer) - position >= _HEADER.size:
            time, kind, server, size, _, _ = _HEADER.unpack_from(self._buffer, position)
            if not _HEADER.size <= size <= _LARGEST_EVENT:
                raise RunError(f"an event of the binary log says that it has {size} bytes")
            if len(self._buffer) - position < size:
                break
            event = bytes(self._buffer[position : position + size])
            position += size
            yield from self._read(event, kind, time, server)
        del self._buffer[:position]

    def rest(self) -> Sequence[Transaction]:
        """Return the transaction at the end of a file that has no more, if its end was not recognized. Raise RunError
        if the file was cut off.
        """
        if self._buffer:
            raise RunError("a file of the binary log ends within an event")
        group, self._group = self._group, None
        return [group.end()] if group else []

    def _read(self, event: bytes, kind: int, time: int, server: int) -> Iterator[Transaction]:
        if kind == _FORMAT:
            self.format = event
            # Its last byte before its own checksum says whether other events have one.
            self._checksum = _CHECKSUM * (event[-_CHECKSUM - 1] == 1)
        if kind in (_FORMAT, *_NO_TRANSACTION):
            return
        body = event[_HEADER.size : len(event) - self._checksum]
        if kind == _GTID:
            # What ends a transaction was not recognized: at the latest, the next one does.
            if self._group:
                yield self._group.end()
            number, domain, flags = struct.unpack_from("<QIB", body)
            if domain:
                text = f"change {domain}-{server}-{number} is of domain {domain}; an archive follows domain 0"
                raise RunError(text, "UnsupportedPosition")
            self._group = _Group(f"0-{server}-{number}", time, bool(flags & _STANDALONE))
        if not self._group:
            raise RunError(f"the binary log has an event of type {kind} outside of a transaction")
        self._group.events.append(event)
        if _note(self._group, kind, body):
            transaction, self._group = self._group.end(), None
            yield transaction


def _note(group: _Group, kind: int, body: bytes) -> bool:
    """Add an event to what a transaction changes; return True if it ends it."""
    if kind in (_XID, _XA_PREPARE):
        return True
    if kind in (_QUERY, _COMPRESSED_QUERY):
        _, _, schema_size, _, status_size = struct.unpack_from("<IIBHH", body)
        text = body[13 + status_size :]
        if group.is_standalone:
            group.changes.append(text)
            return True
        statement = text[schema_size + 1 :]
        if statement != b"BEGIN":
            group.changes.append(text)
        return statement in _ENDS
    if kind == _TABLE_MAP:
        schema, _, rest = body[9:].partition(b"\0")
        group.tables[body[:6]] = table = schema + b"." + rest[1 : 1 + rest[0]]
        group.changes.append(table)
    elif kind in (*_ROWS_V1, *_ROWS_V2):
        rows = _rows(kind, body)
        group.changes.append(rows)
        is_canary = group.tables.get(body[:6]) == _CANARIES
        if is_canary and kind not in (25, 32) and len(rows) > _CANARY_ROW.size:
            # The last row is the new one, also where one takes the place of another.
            _, number, time = _CANARY_ROW.unpack(rows[-_CANARY_ROW.size :])
            group.canaries.append(Canary(number, time))
    return False


def _rows(kind: int, body: bytes) -> bytes:
    """Return the rows of an event, without the number that this server gave to their table."""
    position = 8
    if kind in _ROWS_V2:
        position += struct.unpack_from("<H", body, position)[0]
    width, position = body[position], position + 1
    if width == 252:
        width, position = struct.unpack_from("<H", body, position)[0], position + 2
    return body[position + (width + 7) // 8 * (2 if kind in _UPDATES else 1) :]


def format_meaning(format_event: bytes) -> bytes:
    """Return the part of an event that describes the others, without the times of its file and its checksum."""
    begin, end = _CREATED.start, _CREATED.stop
    return format_event[_HEADER.size : begin] + format_event[end:-_CHECKSUM]


def log_file(format_event: bytes, transactions: Sequence[Transaction]) -> bytes:
    """Return a file of a binary log with these transactions."""
    return b"".join((MAGIC, format_event, *(each.events for each in transactions)))
