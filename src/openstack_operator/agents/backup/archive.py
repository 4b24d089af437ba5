"""Archive the binary log of a database: each change is in the repository some seconds after its commit."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from .archive_status import Status, StatusHandler, blaming, code_of
from .binlog import Canary, Transaction, sequence
from .chain import Archive, Header, Link, new_chain, open_archive
from .database import login_options
from .dual_stack import DualStackServer
from .repository import Repository, open_repository, write_private
from .run import RunError, main, reason_of, say, settings
from .sql import CHAIN, COUNT_TABLES, NEWEST_CANARY, TABLES, Session, write_canary, write_chain
from .stream import DivergedError, PurgedError, Stream

_PAUSE = 0.1
"""Seconds between looks at a log that does not grow."""
_PERIOD = 1.0
"""Seconds between two canaries."""
_OBJECT_BYTES = 4 << 20
"""Bytes of changes from which on an object is written without waiting for more."""
_SILENCE = 5.0
"""Seconds after which a connection that brings nothing is taken for lost, if the database acknowledged canaries."""
_CONNECT = 30.0
"""Seconds in which a connection has to bring something for the first time."""
_PATIENCE = 600.0
"""Seconds for which members that do not answer are waited for, before changes that others do not have are lost."""
_LONGEST_LAG = 20.0
"""Seconds after which a primary that is behind the archive has lost changes."""
_LONGEST_PAUSE = 15.0
"""Seconds between two tries at most."""


def recoverable(canary: Canary | None) -> str | None:
    """Return the last second to whose end a restore can go: the one before that of the newest canary, since only a
    later change proves that there are no more before it. None without a canary.
    """
    if not canary:
        return None
    return datetime.fromtimestamp(canary.time // 1_000_000 - 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Canaries(threading.Thread):
    """Writer of a row each second, at the primary."""

    def __init__(self, login: Path, status: Status) -> None:
        super().__init__(daemon=True)
        self._login, self._status = login, status
        self._last_error = ""
        self.acknowledged_at = 0.0
        """Time of the last acknowledgment, by the clock of this process."""

    def run(self) -> None:
        """Write rows until the process ends."""
        while True:
            try:
                with Session(f"--defaults-file={self._login}") as session:
                    self._write(session)
            except (RunError, OSError, ValueError) as error:
                if (text := reason_of(error)) != self._last_error:
                    say(f"no row can be written: {text}")
                self._last_error = text
                self._status.note(canaryError=code_of(error))
                time.sleep(_PERIOD)

    def _write(self, session: Session) -> None:
        session.ask("SET time_zone = '+00:00'")
        [[number]] = session.ask(NEWEST_CANARY)
        newest, due = int(number), time.monotonic()
        while True:
            newest += 1
            session.ask(write_canary(newest))
            self.acknowledged_at = time.monotonic()
            self._last_error = ""
            self._status.note(canaryError=None)
            due = max(due + _PERIOD, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))


class Archiver:
    """The archive of a database that grows."""

    def __init__(self, run: Mapping[str, Any], config: Path, repository: Repository, status: Status) -> None:
        self._run, self._config, self._repository, self._status = run, config, repository, status
        self._interval = float(run.get("seconds") or 2)
        self._archive: Archive | None = None
        self._stop = threading.Event()
        self._tries = 0
        self._link: Link | None = None
        self._tail: Header | None = None
        self._pending: list[Transaction] = []
        self._pending_bytes = 0
        self._since = 0.0
        self._canary: Canary | None = None
        self._logins = self._read_logins()
        self._purged: dict[int, float] = {}
        """Members whose logs do not have the next change any more, and since when that is known."""
        self._lags_since: float | None = None
        self._canaries = Canaries(self._logins[0], status)

    def _read_logins(self) -> list[Path]:
        """Write the options of a login at the primary and at each member; return their files."""
        hosts: Sequence[str] = [self._run["host"], *self._run.get("members", ())]
        paths = [self._repository.work / f"login-{number}.cnf" for number in range(len(hosts))]
        for path, host in zip(paths, hosts, strict=True):
            write_private(path, login_options({**self._run, "host": host}, self._config, "client"))
        return paths

    def _reload(self) -> None:
        """Read passwords and keys again, which were perhaps replaced. Raise RunError."""
        self._repository = Repository(self._config / "repository", self._repository.work)
        self._logins, self._archive = self._read_logins(), None

    def stop(self, *_: object) -> None:
        """End soon."""
        self._stop.set()

    def follow(self) -> None:
        """Archive until it is stopped. What fails is in the status, and tried again from where the archive ends."""
        pause = 1.0
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                if pause > 1:
                    self._reload()
                self._archive_log()
            except (RunError, OSError, LookupError, ValueError) as error:
                say(reason_of(error))
                self._status.note(error=code_of(error))
                pause = 1.0 if time.monotonic() - began > _LONGEST_PAUSE else min(pause * 2, _LONGEST_PAUSE)
                self._stop.wait(pause)

    def _archive_log(self) -> None:
        """Read the log of one member from the end of the archive on. Raise RunError."""
        if not self._archive:
            with blaming("RepositoryUnavailable"):
                self._repository.create()
                self._archive = open_archive(self._repository, self._run["cloud"], self._run["database"])
        self._pending, self._pending_bytes = [], 0
        with Session(f"--defaults-file={self._logins[0]}") as primary:
            _prepare(primary)
            if not self._canaries.is_alive():
                self._canaries.start()
            self._tail, self._link = None, _stored_link(primary)
            if self._link:
                with blaming("RepositoryUnavailable"):
                    self._tail = self._archive.tail(self._link.chain)
            else:
                self._begin(primary, _position(primary))
            assert self._link
            self._canary = self._tail.canary if self._tail else None
            self._note()
            number, self._tries = self._tries % len(self._logins), self._tries + 1
            try:
                self._read_member(primary, number, self._tail.before_last if self._tail else self._link.begins)
            except PurgedError:
                self._begin_after_gap(primary, number)
            except DivergedError as error:
                if number:
                    text = f"a member does not have the end of the archive: {error}"
                    raise RunError(text, "MemberDiverged") from None
                if self._lags(primary):
                    text = "the primary has not made the last change of the archive yet"
                    raise RunError(text, "PrimaryBehind") from None
                # The members follow the primary.
                say(f"the database was restored, or has lost its last changes: {error}")
                self._begin(primary, _position(primary))

    def _lags(self, primary: Session) -> bool:
        """Return True while a primary is behind the archive: a new one may have changes in its queue. One that stays
        behind has lost them. Raise RunError.
        """
        if not self._tail or sequence(_position(primary)) >= sequence(self._tail.last):
            self._lags_since = None
            return False
        now = time.monotonic()
        self._lags_since = self._lags_since or now
        return now - self._lags_since < _LONGEST_LAG

    def _begin(self, primary: Session, begins: str, *, is_linked: bool = False) -> None:
        """Begin a new chain, and have the database say so: its restored copy says which chain goes on from there."""
        after, lost_after = "", ""
        if is_linked and self._link:
            # One without objects is none: nothing can be restored by it.
            after, lost_after = self._link.after, self._link.lost_after
            if self._tail:
                after, lost_after = self._link.chain, self._tail.last
        link = new_chain(datetime.now(UTC), begins, after, lost_after)
        primary.ask(write_chain(link.chain, begins, after, lost_after))
        say(f"chain {link.chain} begins after {begins}" + (f", with a gap after {lost_after}" if after else ""))
        self._link, self._tail, self._canary = link, None, None

    def _begin_after_gap(self, primary: Session, number: int) -> None:
        """Begin a chain where the log of the primary does, if no member has the next changes. Raise RunError if one may
        still have them.
        """
        now = time.monotonic()
        self._purged.setdefault(number, now)
        if len(self._purged) < len(self._logins) and now - min(self._purged.values()) < _PATIENCE:
            text = "the log of a member has the next changes of the archive no more; another one is asked"
            raise RunError(text, "LogPurged")
        self._purged = {}
        self._begin(primary, _oldest(primary), is_linked=True)

    def _read_member(self, primary: Session, number: int, position: str) -> None:
        name = f"{self._run['cloud']}/{self._run['database']}"
        stream = Stream(self._logins[number], position, self._repository.work / f"log-{self._tries}", name)
        try:
            is_known = self._tail is None
            format_event = b""
            while not self._stop.is_set():
                count = 0
                with blaming("LogUnreadable"):
                    for transaction in stream.read():
                        count += 1
                        if not is_known:
                            self._compare(transaction)
                            is_known, self._purged = True, {}
                            continue
                        if stream.format != format_event:
                            self._flush(format_event)
                            format_event = stream.format
                        self._take(primary, transaction, format_event)
                now = time.monotonic()
                if self._pending_bytes > _OBJECT_BYTES or (self._pending and now - self._since >= self._interval):
                    self._flush(format_event)
                silence = _SILENCE if stream.has_begun else _CONNECT
                if now - stream.arrived_at > silence and self._canaries.acknowledged_at > stream.arrived_at:
                    text = "the connection to the binary log brings no changes; it is opened again"
                    raise RunError(text, "LogSilent")
                if not count:
                    self._stop.wait(_PAUSE)
            self._flush(format_event)
        finally:
            stream.close()

    def _compare(self, transaction: Transaction) -> None:
        """Raise DivergedError if the log has another change where the archive ends."""
        assert self._tail
        if (transaction.gtid, transaction.fingerprint) != (self._tail.last, self._tail.fingerprint):
            raise DivergedError(f"the log has another change than the archive at {self._tail.last}")

    def _take(self, primary: Session, transaction: Transaction, format_event: bytes) -> None:
        assert self._link
        previous = self._pending[-1].gtid if self._pending else self._tail.last if self._tail else None
        if previous and transaction.sequence != sequence(previous) + 1:
            # Changes without a log, such as those while it was turned off.
            self._flush(format_event)
            self._begin(primary, previous, is_linked=True)
        if not self._pending:
            self._since = time.monotonic()
        self._pending.append(transaction)
        self._pending_bytes += len(transaction.events)
        for canary in transaction.canaries:
            self._canary = canary

    def _flush(self, format_event: bytes) -> None:
        """Store what has come since the last object."""
        if not self._pending:
            return
        assert self._archive
        assert self._link
        previous = self._tail.last if self._tail else self._link.begins
        last = self._pending[-1]
        header = Header(
            link=self._link,
            previous=previous,
            first=self._pending[0].gtid,
            last=last.gtid,
            before_last=self._pending[-2].gtid if len(self._pending) > 1 else previous,
            fingerprint=last.fingerprint,
            count=len(self._pending),
            canary=self._canary,
        )
        with blaming("RepositoryUnavailable"):
            size = self._archive.append(header, format_event, self._pending)
        self._tail, self._pending, self._pending_bytes = header, [], 0
        facts = self._status.facts
        self._status.note(
            objects=facts.get("objects", 0) + 1,
            changes=facts.get("changes", 0) + header.count,
            bytes=facts.get("bytes", 0) + size,
            error=None,
        )
        self._note()

    def _note(self) -> None:
        assert self._link
        tail = self._tail
        self._status.note(
            chain=self._link.chain,
            begins=self._link.begins,
            lostAfter=self._link.lost_after or None,
            gtid=tail.last if tail else None,
            lastRecoverableTime=recoverable(tail.canary) if tail else None,
            foreignObjects=len(self._archive.foreign) or None if self._archive else None,
        )


def _prepare(primary: Session) -> None:
    """Make the tables of the archive, unless they exist: each statement would be a change. Raise RunError without a
    binary log.
    """
    if primary.ask("SELECT @@log_bin") != [["1"]]:
        text = "the database writes no binary log; set binaryLog.enabled of the MariaDB"
        raise RunError(text, "NoBinaryLog")
    for statement in TABLES if primary.ask(COUNT_TABLES) != [["2"]] else ():
        primary.ask(statement)


def _position(primary: Session) -> str:
    """Return the GTID of the last change. Raise RunError for another position than one GTID of domain 0."""
    [[position]] = primary.ask("SELECT @@gtid_binlog_pos")
    sequence(position)
    return position


def _oldest(primary: Session) -> str:
    """Return the GTID after which the log of a server begins, empty for its first change."""
    [[name, *_], *_] = primary.ask("SHOW BINARY LOGS")
    for _, _, kind, _, _, info in primary.ask(f"SHOW BINLOG EVENTS IN '{name}' LIMIT 4"):
        if kind == "Gtid_list":
            # Of each domain, the last one was written last.
            return info.strip("[]").rpartition(",")[2].strip()
    return _position(primary)


def _stored_link(primary: Session) -> Link | None:
    """Return the chain that has the changes of a database, by what it says; None if it says nothing."""
    rows = primary.ask(CHAIN)
    return Link(*rows[0]) if rows else None


def archive(config: Path) -> dict[str, Any]:
    """Archive until a signal ends it. Return its status. Raise RunError if it cannot begin."""
    run, status = settings(config), Status()
    with open_repository(config) as repository:
        archiver = Archiver(run, config, repository, status)
        signal.signal(signal.SIGTERM, archiver.stop)
        server = DualStackServer(run["port_of_status"], partial(StatusHandler, status))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        archiver.follow()
        server.shutdown()
    return json.loads(status.text())


if __name__ == "__main__":
    main(archive)
