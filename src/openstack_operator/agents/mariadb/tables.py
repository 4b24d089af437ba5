"""Version of the data of a member of a cluster, and the step that brings system tables to that of the server.

MariaDB notes in its directory to which version mariadb-upgrade has brought them. A state transfer leaves that note out.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Iterable
from pathlib import Path

from .galera import PRIMARY, Member

RETRY = 10.0
"""Seconds until a failed upgrade is tried again."""
NOTES = ("mariadb_upgrade_info", "mysql_upgrade_info")
"""Names of the note: MariaDB 11 writes the first, earlier ones the second. MariaDB 11 reads the second, too."""


def series(version: str) -> str:
    """Return the major version in the text of a version, such as 11.8; empty if there is none."""
    match = re.search(r"(?<!\d)(\d{1,3}\.\d{1,3})\.\d", version)
    return match[1] if match else ""


def noted_version(data: Path) -> str:
    """Return the major version of the system tables of a directory, empty if nothing says it."""
    for name in NOTES:
        with contextlib.suppress(OSError):
            return series((data / name).read_text(encoding="utf-8", errors="replace"))
    return ""


def is_newer(version: str, other_version: str) -> bool:
    """Return True if a major version is later than the other one."""
    numbers = [tuple(int(part) for part in each.split(".")) if each else () for each in (version, other_version)]
    return all(numbers) and numbers[0] > numbers[1]


def received_upgraded(version: str, peers: Iterable[Member]) -> bool:
    """Return True if data without a note, which come from another member, are of this version: all that serve have it,
    and none has older system tables.
    """
    serving = [peer for peer in peers if peer.status == PRIMARY]
    # One that has just received its own data knows no more than this one.
    return all(peer.version == version for peer in serving) and {peer.tables for peer in serving} - {""} == {version}


class Tables:
    """The system tables of the server beside this program. Each member upgrades its own: mariadb-upgrade turns
    replication off for what it does.
    """

    def __init__(self, data: Path, socket: Path) -> None:
        self._data, self._socket = data, socket
        self._upgrade: asyncio.Task[str] | None = None
        self._retry_at = 0.0
        self.version = ""
        """Major version of the server's program; empty if it says none, of which nothing is upgraded."""
        self.trouble = ""
        """Reason for which the member does not serve yet; empty if there is none."""

    @property
    def noted(self) -> str:
        """Major version of the system tables; empty if nothing says it."""
        return noted_version(self._data)

    @property
    def are_unknown(self) -> bool:
        """True if only the other members know the version of the data."""
        return bool(self.version) and not self.noted and self._upgrade is None

    async def find_version(self) -> None:
        """Find out the version of the server's program."""
        self.version = series((await _run("mariadbd", "--version"))[1])

    def refusal(self) -> str:
        """Return why the server must not read the data; empty if it may."""
        if not is_newer(self.noted, self.version):
            return ""
        return (
            f"its data are of MariaDB {self.noted}, which {self.version} cannot read;"
            f" run {self.noted} again, or restore a backup"
        )

    def are_current(self, peers: Iterable[Member]) -> bool:
        """Return True if the system tables are of the version of the server, which answers; begin to upgrade them if
        they are not. `peers` are to be those that answer while the tables `are_unknown`.
        """
        if self._upgrade and self._upgrade.done():
            error, self._upgrade = self._upgrade.result(), None
            if error:
                self.trouble, self._retry_at = f"mariadb-upgrade failed: {error}", time.monotonic() + RETRY
        if self._upgrade is None:
            if self.are_unknown and received_upgraded(self.version, peers):
                (self._data / NOTES[-1]).write_text(f"{self.version}.0-MariaDB\n", encoding="utf-8")
            if not self.version or self.noted == self.version:
                self.trouble = ""
            elif time.monotonic() >= self._retry_at:
                self._upgrade = asyncio.create_task(self._upgraded())
                self.trouble = f"brings its system tables to MariaDB {self.version}"
        return not self.trouble

    async def _upgraded(self) -> str:
        """Upgrade the tables; return the last line about a failure, or nothing."""
        # The account of the user that owns the files: no password.
        options = ["--no-defaults", "--user=mysql", f"--socket={self._socket}", "--silent"]
        status, output = await _run("mariadb-upgrade", *options)
        return next(reversed(output.strip().splitlines()), f"status {status}") if status else ""


async def _run(*words: str) -> tuple[int, str]:
    """Return status and output of a program."""
    process = await asyncio.create_subprocess_exec(*words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    output = (await process.communicate())[0].decode(errors="replace")
    return process.returncode or 0, output
