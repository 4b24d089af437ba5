"""Events of a binary log of MariaDB, as its server writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from openstack_operator.agents.backup.binlog import MAGIC

SERVER = 7
_HEADER = struct.Struct("<IBIIIH")


def event(kind: int, time: int, body: bytes, checksum: bytes = b"") -> bytes:
    """Return an event, with the four bytes of a checksum if it has one."""
    size = _HEADER.size + len(body) + len(checksum)
    return _HEADER.pack(time, kind, SERVER, size, 0, 0) + body + checksum


def format_event(*, has_checksums: bool = False, created: int = 0) -> bytes:
    """Return the event that describes the others."""
    body = struct.pack("<H50sIB", 4, b"11.8.9-MariaDB-log", created, 19) + bytes(171) + bytes([has_checksums])
    return event(15, created, body, bytes(4))


def gtid(number: int, time: int, *, flags: int = 0, domain: int = 0, checksum: bytes = b"") -> bytes:
    """Return the event with which a transaction begins."""
    return event(162, time, struct.pack("<QIB", number, domain, flags) + bytes(6), checksum)


def query(time: int, text: str, checksum: bytes = b"") -> bytes:
    """Return a statement."""
    return event(2, time, struct.pack("<IIBHH", 9, 0, 1, 0, 0) + b"d\0" + text.encode(), checksum)


def table(time: int, name: str, number: int, checksum: bytes = b"") -> bytes:
    """Return the event that gives a table, such as `cloud.numbers`, a number."""
    parts = [part.encode() for part in name.split(".")]
    names = b"".join(bytes([len(part)]) + part + b"\0" for part in parts)
    return event(19, time, number.to_bytes(6, "little") + bytes(2) + names + b"\3\3\x08\x08\0", checksum)


def rows(time: int, number: int, row: bytes, checksum: bytes = b"") -> bytes:
    """Return the event that inserts a row of three columns."""
    return event(23, time, number.to_bytes(6, "little") + b"\1\0" + b"\3\7" + b"\0" + row, checksum)


def insert(sequence: int, time: int, name: str, row: bytes, table_number: int = 30, checksum: bytes = b"") -> bytes:
    """Return a transaction that inserts a row."""
    return b"".join(
        (
            gtid(sequence, time, flags=4, checksum=checksum),
            table(time, name, table_number, checksum),
            rows(time, table_number, row, checksum),
            event(16, time, bytes(8), checksum),
        )
    )


def canary(sequence: int, time: int, number: int) -> bytes:
    """Return a transaction that writes a canary."""
    return insert(sequence, time, "openstack_operator.canary", struct.pack("<IQQ", number, number, time * 1_000_000))


def file(transactions: Iterable[bytes], *, has_checksums: bool = False) -> bytes:
    """Return a file of a log."""
    return b"".join((MAGIC, format_event(has_checksums=has_checksums), *transactions))
