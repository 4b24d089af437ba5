"""Restore a database to the end of a second: a backup, and then the changes after it from the archive."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .binlog import Canary, Transaction, format_meaning, log_file, sequence
from .chain import Archive, Link, open_archive
from .repository import open_repository, write_private
from .restore import Proof, await_start, fill, once, prove
from .run import Child, RunError, main, say, settings
from .sql import CANARIES, CHAIN, COUNT_TABLES, SLOTS, Session

_SEGMENT = 64 << 20
"""Bytes of changes that are on the disk besides the database."""
_APPLY_SECONDS = 24 * 3600.0
_RELAY_LOG = "replay"
_BEGIN = "RELAY_LOG_POS=4"
_IS_RUNNING, _ERROR = 11, 19
"""Columns of SHOW SLAVE STATUS."""
_LOOK = 0.1
"""Seconds between looks at the position of a server."""
_STOP_SECONDS = 600.0
_LOG = "binlog"
"""Name of the log in `log_bin` of the MariaDB that gets the volume."""


@dataclass
class Goal:
    """Changes that a replay makes, from objects that were all read and are whole."""

    archive: Archive
    chain: str
    ancestors: tuple[str, ...]
    """Identifiers of this chain and of those before it, one of which the backup has to name."""
    base: str
    until: int
    """Second since 1970, to whose end it goes."""
    end: str
    """GTID of the last change; that of the backup if there is none."""
    changes: int
    canaries: dict[int, Canary] = field(default_factory=dict[int, Canary])
    """Canaries in these changes, by their slots."""


def recover(config: Path) -> dict[str, Any]:
    """Restore a backup as `restore` does, and all changes after it whose commit began until `pointInTime` ended. Return
    the same, with the last change as `gtid`, and `chain` and `changes`. Raise RunError: before the data directory was
    changed if the archive cannot do that, and later with the mark in it, so that the next run begins again.
    """
    run = settings(config)
    return once(run, lambda: fill_and_replay(config, run))


def fill_and_replay(config: Path, run: Mapping[str, Any]) -> dict[str, Any]:
    """Fill the data directory of a run, and leave the mark; return as `recover` does. Raise RunError."""
    until = int(datetime.fromisoformat(run["pointInTime"]).astimezone(UTC).timestamp())
    with open_repository(config) as repository:
        archive = open_archive(repository, run["cloud"], run["database"])
        goals, reasons = plan_replay(archive, run["gtid"], until)
        reached: list[Goal] = []

        def finish(data: Path, work: Path) -> Proof:
            reached.append(apply(goals, reasons, data, work))
            return prove(run.get("pools", ()), data, work)

        result = fill(config, finish)
    [goal] = reached
    return {**result, "gtid": goal.end, "chain": goal.chain, "changes": goal.changes}


def plan_replay(archive: Archive, base: str, until: int) -> tuple[list[Goal], dict[str, str]]:
    """Return what can be done from a backup on, for each chain that may have its changes, and why other chains cannot;
    the backup itself says later which one has them. Raise RunError with the reasons if none has.
    """
    number = sequence(base)
    goals: list[Goal] = []
    reasons: dict[str, str] = {}
    for chain in archive.chains():
        reach = archive.reach(chain)
        if reach is None:
            continue
        try:
            goals.append(_plan_chain(archive, chain, base, until))
        except RunError as error:
            # What lies after the backup is perhaps in no other chain.
            if reach[1] > number:
                reasons[chain] = str(error)
    if not goals:
        text = "; ".join(dict.fromkeys(reasons.values()))
        text = text or f"the archive has no change after {base}, where the backup ends"
        raise RunError(text + archive.remark())
    if remark := archive.remark():
        say(f"the archive can be read{remark}")
    return goals, reasons


def _plan_chain(archive: Archive, chain: str, base: str, until: int) -> Goal:
    start, number = archive.start(chain), sequence(base)
    assert start
    link = start.link
    if number + 1 < sequence(start.first):
        lost = f"; the changes after {link.lost_after} are lost" if link.after else ""
        raise RunError(
            f"the backup ends at {base}, and chain {chain} of the archive begins after {start.previous}{lost}:"
            " restore a backup that was made later"
        )
    goal = Goal(archive, chain, _ancestors(archive, link), base, until, base, 0)
    changes, stored, newest = walk(archive, chain, base), 0, 0
    for each in changes:
        change = each.transaction
        stored, newest = max(stored, change.time if each.is_stored else 0), max(newest, change.time)
        if change.time > until and each.is_stored:
            raise RunError(
                f"the backup has changes later than {_text(until)}; choose a later time or an earlier backup"
            )
        if change.time > until:
            _check_clock(change, changes, until)
            return goal
        if not each.is_stored:
            goal.end, goal.changes = change.gtid, goal.changes + 1
            goal.canaries |= {canary.number % SLOTS: canary for canary in change.canaries}
    # Only a later change proves that there are no more of a second.
    is_reached = stored <= newest - 1
    advice = f"choose {_text(newest - 1)} or an earlier time" if is_reached else "choose an earlier backup"
    raise RunError(
        f"chain {chain} of the archive ends with change {goal.end}, and cannot prove that nothing of {_text(until)} is"
        f" missing; {advice}"
    )


@dataclass(frozen=True)
class Change:
    """A transaction of an archive."""

    transaction: Transaction
    format: bytes
    is_stored: bool
    """True if the backup has it."""


def walk(archive: Archive, chain: str, base: str) -> Iterator[Change]:
    """Yield the changes of a chain, each once and in order: the last ones that a backup until `base` has, and those
    after it. Raise RunError if one is missing, or if two archivers stored different ones.
    """
    start, number, newest = archive.start(chain), sequence(base), 0
    begins = start is not None and start.previous == base
    fingerprints: dict[int, str] = {}
    position = ""
    for content in archive.contents(chain, number):
        header, begin = content.header, content.transactions[0].sequence
        # What lies before the backup may be gone.
        if position and begin > max(newest + 1, number):
            raise RunError(
                f"chain {chain} of the archive lacks the changes from {newest + 1} to {begin - 1}: an object between"
                f" {position} and {header.first} is missing"
            )
        if position and begin == newest + 1 and header.previous != position:
            raise RunError(f"the object {content.name} of the archive follows {header.previous}, not {position}")
        # Later objects begin later.
        fingerprints = {each: text for each, text in fingerprints.items() if each >= begin}
        for change in content.transactions:
            if fingerprints.setdefault(change.sequence, change.fingerprint) != change.fingerprint:
                raise RunError(f"chain {chain} of the archive has two different changes {change.gtid}")
            if not begins and change.sequence == number and change.gtid != base:
                raise RunError(f"chain {chain} of the archive has {change.gtid}, and the backup ends at {base}")
            if not position or change.sequence > newest:
                position, newest = change.gtid, change.sequence
                yield Change(change, content.format, not begins and newest <= number)


def _check_clock(change: Transaction, changes: Iterator[Change], until: int) -> None:
    """Raise RunError if canaries after the first change that is too late are of the time before its end. One may be: it
    is written once its predecessor is acknowledged, and its commit may have taken so long.
    """
    canaries = list(change.canaries)
    while len(canaries) < 2 and (following := next(changes, None)):
        canaries += following.transaction.canaries
    if any(canary.time // 1_000_000 <= until for canary in canaries[1:]):
        raise RunError(
            f"clocks went back: there are changes of {_text(until)} after {change.gtid}, which is of"
            f" {_text(change.time)}; choose a later time"
        )


def _ancestors(archive: Archive, link: Link) -> tuple[str, ...]:
    chains = [link.chain]
    while link.after and link.after not in chains:
        chains.append(link.after)
        # It may be gone, and a backup from its end names it all the same.
        if not (start := archive.start(link.after)):
            break
        link = start.link
    return tuple(chains)


def apply(goals: Sequence[Goal], reasons: Mapping[str, str], data: Path, work: Path) -> Goal:
    """Make the changes of the goal that a restored database belongs to; return that. Raise RunError."""
    account, password = f"replay-{secrets.token_hex(8)}", secrets.token_urlsafe(24)
    socket, login, init = work / "replay.sock", work / "replay.cnf", work / "replay.sql"
    name = f"'{account}'@'localhost'"
    write_private(login, f"[client]\nuser={account}\npassword={password}")
    # Not without privileges: without them, a server refuses the statements about accounts that a log may have.
    write_private(
        init,
        f"SET sql_log_bin = 0;\nCREATE OR REPLACE USER {name} IDENTIFIED BY '{password}';\n"
        f"GRANT ALL PRIVILEGES ON *.* TO {name} WITH GRANT OPTION;",
    )
    with Child("mariadbd", *_server_options(data, work, socket, init)) as server:
        options = (f"--defaults-file={login}", f"--socket={socket}")
        await_start(server, socket, options[:1])
        with Session(*options) as session:
            goal = _choose(session, goals, reasons)
            expected = _canaries(session) | goal.canaries
            session.ask(f"RESET MASTER; SET GLOBAL gtid_binlog_state = '{goal.base}'")
            _replicate(session, goal, work)
            _verify(session, goal, expected)
            # The log goes on with the next number, and has none of the changes that are elsewhere.
            session.ask(f"RESET MASTER; SET GLOBAL gtid_binlog_state = '{goal.end}'")
            session.ask(f"SET sql_log_bin = 0; DROP USER {name}")
        server.end()
        if status := server.wait():
            raise RunError(f"the server did not stop in order ({status}): {server.reason()}")
    return goal


def _server_options(data: Path, work: Path, socket: Path, init: Path) -> list[str]:
    return [
        f"--datadir={data}",
        f"--socket={socket}",
        f"--pid-file={work / 'replay.pid'}",
        f"--tmpdir={work}",
        f"--init-file={init}",
        "--skip-networking",
        "--skip-slave-start",
        "--event-scheduler=OFF",
        "--wsrep-on=OFF",
        "--wsrep-provider=none",
        "--max-allowed-packet=1G",
        f"--log-bin={_LOG}",
        f"--relay-log={work / _RELAY_LOG}",
        "--log-slave-updates=ON",
        "--gtid-strict-mode=ON",
        # A replica leaves out what has its own number.
        "--server-id=4294967295",
        "--binlog-format=ROW",
        # A replay that a power cut ends begins again, with the backup.
        "--sync-binlog=0",
        "--innodb-flush-log-at-trx-commit=0",
        "--max-binlog-size=64M",
        "--loose-max-binlog-total-size=256M",
        "--loose-slave-connections-needed-for-purge=0",
    ]


def _choose(session: Session, goals: Sequence[Goal], reasons: Mapping[str, str]) -> Goal:
    """Return the goal whose chain the database names, or a chain before that. Raise RunError."""
    rows = session.ask(CHAIN) if session.ask(COUNT_TABLES) == [["2"]] else []
    if not rows:
        raise RunError("the backup was made before the archive of its database began; restore a later one")
    chain = rows[0][0]
    fitting = [goal for goal in goals if chain in goal.ancestors]
    if not fitting and chain in reasons:
        raise RunError(reasons[chain])
    if not fitting:
        names = ", ".join(goal.chain for goal in goals)
        raise RunError(f"the backup is of chain {chain}, and what the archive has for this time is of {names}")
    goal = min(fitting, key=lambda each: each.ancestors.index(chain))
    late = max((canary.time for canary in _canaries(session).values()), default=0)
    if late // 1_000_000 > goal.until:
        raise RunError(f"the backup has changes later than {_text(goal.until)}; choose a later time")
    return goal


def _canaries(session: Session) -> dict[int, Canary]:
    rows = session.ask(CANARIES)
    return {int(slot): Canary(int(number), int(time)) for slot, number, time in rows}


def _replicate(session: Session, goal: Goal, work: Path) -> None:
    """Have a server make all changes, as a replica does that has received them: as SQL, MariaDB would log some of them
    as two. Raise RunError if it refuses one.
    """
    path, deadline = work / f"{_RELAY_LOG}.000001", time.monotonic() + _APPLY_SECONDS
    for format_event, changes in _segments(goal):
        path.write_bytes(log_file(format_event, changes))
        (work / f"{_RELAY_LOG}.index").write_text(f"{path}\n", encoding="utf-8")
        session.ask(f"CHANGE MASTER TO MASTER_HOST='none', MASTER_USE_GTID=no, RELAY_LOG_FILE='{path.name}', {_BEGIN}")
        session.ask("START SLAVE SQL_THREAD")
        while session.ask("SELECT @@gtid_binlog_pos") != [[changes[-1].gtid]]:
            [state] = session.ask("SHOW SLAVE STATUS")
            if state[_IS_RUNNING] != "Yes" or time.monotonic() > deadline:
                raise RunError(f"the changes cannot be made again: {state[_ERROR] or 'it takes more than a day'}")
            time.sleep(_LOOK)
        session.ask("STOP SLAVE; RESET SLAVE ALL", _STOP_SECONDS)
        say(f"replayed until {changes[-1].gtid}")
    session.ask("SET GLOBAL gtid_slave_pos = ''")


def _segments(goal: Goal) -> Iterator[tuple[bytes, list[Transaction]]]:
    """Yield all changes in pieces, each with the event of their format."""
    changes: list[Transaction] = []
    size, format_event = 0, b""
    for each in walk(goal.archive, goal.chain, goal.base):
        change = each.transaction
        if each.is_stored:
            continue
        if change.sequence > sequence(goal.end):
            break
        if changes and (size > _SEGMENT or format_meaning(each.format) != format_meaning(format_event)):
            yield format_event, changes
            changes, size = [], 0
        format_event = each.format
        changes.append(change)
        size += len(change.events)
    if changes:
        yield format_event, changes


def _verify(session: Session, goal: Goal, expected: Mapping[int, Canary]) -> None:
    """Raise RunError if the database is not at the end of the changes, or has other canaries than these."""
    [[position]] = session.ask("SELECT @@gtid_binlog_pos")
    if position != goal.end:
        raise RunError(f"the replay ended at change {position}, not at {goal.end}")
    if (canaries := _canaries(session)) != expected:
        different = {
            number for number in canaries.keys() | expected.keys() if canaries.get(number) != expected.get(number)
        }
        raise RunError(f"{len(different)} canaries in the database are not those of the archive until {goal.end}")


def _text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main(recover)
