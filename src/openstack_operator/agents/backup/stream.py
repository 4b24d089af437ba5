"""Stream of a server's binary log: mariadb-binlog writes it into files, which are read while they grow."""

from __future__ import annotations

import hashlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from .binlog import Parser, Transaction
from .run import Child, RunError

_LARGEST_SPOOL = 128 << 20
"""Bytes in files that were not read yet, from which on the program that writes them waits."""
_PIECE_SIZE = 1 << 20
_PURGED = "Could not find GTID state requested by slave"
_DIVERGED = ("which is not in the master's binlog", "has diverged", "is missing the GTID")


class PurgedError(RunError):
    """The changes after a position are in the log no more."""


class DivergedError(RunError):
    """The log does not have the change that is to be the last one before the next."""


class Stream:
    """Changes of a server after a position. At the end of the `with` block nothing is left of it."""

    def __init__(self, login: Path, position: str, folder: Path, name: str) -> None:
        """Begin to read. `name` says who reads: of two with one name, the server serves the later."""
        folder.mkdir()
        self._folder = folder
        digest = hashlib.sha256(name.encode()).digest()
        self._child = Child(
            "mariadb-binlog",
            f"--defaults-file={login}",
            "--read-from-remote-server",
            "--raw",
            "--stop-never",
            # Without it, it would have the number 1, as many a replica, whose connection the server would end.
            f"--stop-never-slave-server-id={2**31 + int.from_bytes(digest[:4]) // 4}",
            f"--start-position={position}",
            f"--result-file={folder}/",
            # It demands a name, and reads the file with the position.
            "binlog",
        )
        self._path: Path | None = None
        self._offset = 0
        self._parser = Parser()
        self.arrived_at = time.monotonic()
        """Time at which something came last, by the clock of this process."""
        self.has_begun = False
        """True once something came."""
        self._is_paused = False

    def close(self) -> None:
        """End the program, and remove its files."""
        self._pause(is_due=False)
        self._child.__exit__(None, None, None)
        for path in self._folder.iterdir():
            path.unlink()
        self._folder.rmdir()

    @property
    def format(self) -> bytes:
        """Event that describes the format of the transactions that were read last."""
        return self._parser.format

    def read(self) -> Iterator[Transaction]:
        """Yield what has arrived, at most one MiB. Raise RunError if the program ended and nothing is left to read:
        PurgedError or DivergedError if the server does not have what comes next.
        """
        # Asked first: what it wrote before it ended is read.
        has_ended = self._child.has_ended
        paths = sorted(self._folder.iterdir(), key=lambda path: (len(path.name), path.name))
        self._pause(is_due=sum(path.stat().st_size for path in paths) - self._offset > _LARGEST_SPOOL)
        if paths and self._path != paths[0]:
            self._path, self._offset, self._parser = paths[0], 0, Parser()
        data = b""
        if self._path:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read(_PIECE_SIZE)
        self._offset += len(data)
        if data:
            self.arrived_at, self.has_begun = time.monotonic(), True
        yield from self._parser.feed(data)
        if self._path and not data and len(paths) > 1:
            # The next file began: this one is whole.
            yield from self._parser.rest()
            self._path.unlink()
        if has_ended and not data and len(paths) < 2:
            raise self._error()

    def _pause(self, *, is_due: bool) -> None:
        if is_due != self._is_paused and not self._child.has_ended:
            self._child.send(signal.SIGSTOP if is_due else signal.SIGCONT)
            self._is_paused = is_due

    def _error(self) -> RunError:
        self._child.wait()
        reason = self._child.reason()
        if _PURGED in reason:
            return PurgedError(reason)
        if any(part in reason for part in _DIVERGED):
            return DivergedError(reason)
        return RunError(f"the binary log cannot be read: {reason}", "LogUnreadable")
