"""Transactions as clients saw them, and their file: a transaction a line, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

import msgspec


class Outcome(StrEnum):
    """Result of a transaction, as far as its client knows it."""

    OK = "ok"
    """The server acknowledged its commit."""
    FAILED = "failed"
    """It never takes effect: its commit was never sent, or the server refused it."""
    UNKNOWN = "unknown"
    """Its commit was sent, and no answer came."""


class Append(msgspec.Struct, frozen=True, array_like=True, tag="append", gc=False):
    """A micro-operation that adds a value, which no other append to this key has, to the end of the list of a key."""

    key: int
    value: int


class Read(msgspec.Struct, frozen=True, array_like=True, tag="read", gc=False):
    """A micro-operation that reads the whole list of a key."""

    key: int
    values: tuple[int, ...] | None = None
    """None if there was no answer."""


Operation = Append | Read


class Transaction(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One transaction, tried once: a client that tries again makes another one."""

    process: int
    """Number of the client, which has one transaction at a time."""
    outcome: Outcome
    start: int
    """Microseconds of a clock that all clients share, before its first message was sent."""
    end: int
    """By the same clock, after the last answer came, or when the client gave up."""
    operations: tuple[Operation, ...]
    is_final: bool = False
    """True for reads after all other transactions, when all faults were mended."""
    error: str = ""
    member: str = ""
    """Server that it was sent to, if the client knows it."""


def encode(transaction: Transaction) -> bytes:
    """Return the line of a transaction, with its end."""
    return msgspec.json.encode(transaction) + b"\n"


def decode(lines: Iterable[bytes]) -> Iterator[Transaction]:
    """Yield the transaction of each line. Raises ValueError for a line that is none."""
    decoder = msgspec.json.Decoder(Transaction)
    for number, line in enumerate(lines, 1):
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError as error:
            raise ValueError(f"line {number}: {error}") from None


def load(path: Path) -> list[Transaction]:
    """Return the history of a file. Raises OSError, and ValueError for a line that is no transaction."""
    with path.open("rb") as file:
        return list(decode(file))
