"""A client of MariaDB that stays connected, and the tables that an archive has in the database."""

from __future__ import annotations

import os
import secrets
import select
import time
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from .run import Child, RunError

_READ_BYTES = 1 << 16
TABLES = (
    "CREATE SCHEMA IF NOT EXISTS openstack_operator",
    """CREATE TABLE IF NOT EXISTS openstack_operator.canary (slot INT UNSIGNED PRIMARY KEY,
    number BIGINT UNSIGNED NOT NULL, time BIGINT UNSIGNED NOT NULL COMMENT 'microseconds since 1970') ENGINE=InnoDB""",
    """CREATE TABLE IF NOT EXISTS openstack_operator.archive (id TINYINT PRIMARY KEY, chain VARCHAR(64) NOT NULL,
    begins VARCHAR(64) NOT NULL, after VARCHAR(64) NOT NULL, lost_after VARCHAR(64) NOT NULL) ENGINE=InnoDB""",
)
"""Statements that make the tables of an archive: of its canaries, and one with the beginning of its chain."""
COUNT_TABLES = """SELECT COUNT(*) FROM information_schema.tables
    WHERE table_schema = 'openstack_operator' AND table_name IN ('canary', 'archive')"""
NEWEST_CANARY = "SELECT COALESCE(MAX(number), 0) FROM openstack_operator.canary"
CANARIES = "SELECT slot, number, time FROM openstack_operator.canary"
CHAIN = "SELECT chain, begins, after, lost_after FROM openstack_operator.archive"
SLOTS = 86_400
"""Canaries that the table has at most: those of a day."""


def write_canary(number: int) -> str:
    """Return the statement that writes a canary, with the time of its server."""
    values = f"{number % SLOTS}, {number}, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)"
    return f"REPLACE INTO openstack_operator.canary VALUES ({values})"  # noqa: S608  (numbers alone)


def write_chain(*values: str) -> str:
    """Return the statement that writes the beginning of a chain; its values have no quotes."""
    assert not any("'" in value or "\\" in value for value in values)
    texts = ", ".join(f"'{value}'" for value in values)
    return f"REPLACE INTO openstack_operator.archive VALUES (1, {texts})"  # noqa: S608  (as checked above)


class Session:
    """A connection. At the end of the `with` block it is closed."""

    def __init__(self, *options: str) -> None:
        """Start the client with options that say where to log in."""
        read, write = os.pipe()
        words = (
            "--batch",
            "--skip-column-names",
            "--unbuffered",
            "--binary-mode",
            "--skip-reconnect",
            "--no-auto-rehash",
        )
        with os.fdopen(read, "rb") as source:
            self._child = Child("mariadb", *options, *words, stdin=source)
        self._input: IO[bytes] = os.fdopen(write, "wb")
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._input.close()
        self._child.__exit__(kind, error, trace)

    def ask(self, statement: str, seconds: float = 15.0) -> list[list[str]]:
        """Return the rows of a statement's result, as texts. Raise RunError if it fails, or takes longer."""
        mark = secrets.token_hex(8)
        try:
            self._input.write(f"{statement};\nSELECT '{mark}';\n".encode())
            self._input.flush()
        except OSError:
            raise RunError(self._failure(), "DatabaseUnavailable") from None
        deadline, rows = time.monotonic() + seconds, list[list[str]]()
        while (line := self._line(deadline)) != mark:
            rows.append(line.split("\t"))
        return rows

    def _failure(self) -> str:
        """Return why the client ended."""
        self._child.wait()
        return f"the database failed: {self._child.reason()}"

    def _line(self, deadline: float) -> str:
        while b"\n" not in self._rest:
            wait = deadline - time.monotonic()
            if wait <= 0 or not select.select([self._child.stdout], [], [], wait)[0]:
                raise RunError("the database does not answer in time", "DatabaseUnavailable")
            piece = os.read(self._child.stdout.fileno(), _READ_BYTES)
            if not piece:
                raise RunError(self._failure(), "DatabaseUnavailable")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace")
