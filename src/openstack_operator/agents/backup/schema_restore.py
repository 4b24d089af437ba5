"""Put schemas of a backup in the places of those of a cloud that runs, all at once; the data of before stay beside."""

from __future__ import annotations

import json
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .database import login_options
from .replay import fill_and_replay
from .repository import write_private
from .restore import ask_server, fill, prove, served
from .run import Child, RunError, main, run_child, say, settings
from .schemas import RESTORE_TABLE, REVISION_TABLE, answer_lines, revision
from .sql import Session

_TAG_LENGTH = 8
_PROGRAM_KINDS = ("triggers", "views", "routines", "events")
_NAME_COLUMNS = {"triggers": "trigger_schema", "routines": "routine_schema", "events": "event_schema"}
_PLAIN_TABLE = re.compile(r"[A-Za-z0-9_]{1,64}")
_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}' ORDER BY table_name"
_CHARACTER_SET = (
    "SELECT CONCAT('CHARACTER SET ', default_character_set_name, ' COLLATE ', default_collation_name)"
    " FROM information_schema.schemata WHERE schema_name = '{schema}'"
)
_STAGED = "SELECT schema_name FROM information_schema.schemata WHERE LEFT(schema_name, {length}) = '{prefix}'"
_IDLE_TRANSACTIONS = (
    "SELECT p.id FROM information_schema.innodb_trx t JOIN information_schema.processlist p"
    " ON p.id = t.trx_mysql_thread_id WHERE p.command = 'Sleep' AND p.time >= {seconds} AND p.db IN ({schemas})"
)
_RENAME_SECONDS = 600.0
_LOCK_SECONDS, _LOCK_TRIES = 10, 30
"""Seconds for which clients of a single server wait behind a change of places that waits for a transaction, and tries
until it fails.
"""
Ask = Callable[[str], str]
"""Function from a statement to the lines of a server."""


@dataclass(frozen=True)
class Places:
    """Names of a schema during a run of a restore."""

    live: str
    staged: str
    """Schema with the data of the backup, until these have their place. Each run has its own: two may overlap, as when
    the node of the first one is cut off.
    """
    earlier: str
    """Schema with the data of before, afterwards; that of all runs of the restore."""
    staged_prefix: str

    @classmethod
    def of(cls, schema: str, restore: str) -> Places:
        """Return the names for a run of the restore with this uid."""
        tag = "".join(letter for letter in restore.lower() if letter.isalnum())[:_TAG_LENGTH]
        prefix = f"{schema}_staged_{tag}_"
        return cls(schema, f"{prefix}{secrets.token_hex(2)}", f"{schema}_before_{tag}", prefix)


@dataclass(frozen=True)
class Loaded:
    """A schema that is staged."""

    places: Places
    tables: Sequence[str]
    """Names of its tables in the backup."""
    rows: int
    revision: str
    """Revision of the schema; empty if it has none."""


def restore_schemas(config: Path) -> dict[str, Any]:
    """Restore the `schemas` of run.json in a scratch folder, load them beside those in use, and give all of them their
    places in one statement. Return `places`, each with its `name`, its numbers of `tables` and `rows`, and `earlier`,
    the schema with the data of before; and `gtid`, `changes` and `seconds`. A later run of the same restore changes
    nothing, and returns the same. Raise RunError: the cloud has what it had before.
    """
    run = settings(config)
    every = [Places.of(schema, run["restore"]) for schema in run["schemas"]]
    with tempfile.TemporaryDirectory(prefix="login-") as private:
        login = Path(private) / "login.cnf"
        write_private(login, login_options(run, config, "client", "admin"))
        ask = partial(_ask_live, login)
        _drop_staged(ask, every)
        try:
            return _result_of_before(ask, every) or _restore(config, run, login, every)
        finally:
            # Copies that stay would fill the volume of the database.
            with suppress(RunError):
                _drop_staged(ask, every)


def _restore(config: Path, run: Mapping[str, Any], login: Path, every: Sequence[Places]) -> dict[str, Any]:
    """Do all that no earlier run has done; return and raise as `restore_schemas` does."""
    began = time.monotonic()
    folder, data = Path(run["folder"]), Path(run["datadir"])
    data.mkdir(parents=True, exist_ok=True)
    filled = fill_and_replay(config, run) if run.get("pointInTime") else fill(config, partial(prove, ()))
    with served(data, folder) as socket:
        scratch, live = partial(ask_server, socket), partial(_ask_live, login)
        for places in every:
            _refuse_unfit(scratch, live, places.live)
        loaded = [_load(socket, login, places) for places in every]
    rows = [
        {"name": each.places.live, "tables": len(each.tables), "rows": each.rows, "earlier": each.places.earlier}
        for each in loaded
    ]
    result = {
        "places": rows,
        "gtid": filled["gtid"],
        "changes": filled.get("changes"),
        "seconds": round(time.monotonic() - began, 1),
    }
    return change_places(login, loaded, result)


def _result_of_before(ask: Ask, every: Sequence[Places]) -> dict[str, Any] | None:
    """Return the result of a run that gave all schemas their places; None if there was none."""
    earlier = every[0].earlier
    if RESTORE_TABLE not in _tables(ask, earlier):
        return None
    text = ask(f"SELECT HEX(result) FROM {earlier}.{RESTORE_TABLE}")  # noqa: S608  (plain names)
    return dict(json.loads(bytes.fromhex(text)))


def _drop_staged(ask: Ask, every: Sequence[Places]) -> None:
    """Drop what this restore has staged, in this run or an earlier one."""
    for prefix in (places.staged_prefix for places in every):
        for name in ask(_STAGED.format(length=len(prefix), prefix=prefix)).split():
            ask(f"DROP SCHEMA IF EXISTS {name}")


def _refuse_unfit(scratch: Ask, live: Ask, schema: str) -> None:
    """Raise RunError if a schema is not in the backup, has what does not move with its tables, or is not of the release
    of the one in use.
    """
    if not _tables(scratch, schema):
        raise RunError(f"the backup has no schema {schema}; use another backup")
    for ask, where in ((scratch, "backup"), (live, "cloud")):
        if kinds := [kind for kind in _PROGRAM_KINDS if int(ask(_count(kind, schema)))]:
            text = f"the schema {schema} of the {where} has {' and '.join(kinds)}, which do not move with its tables"
            raise RunError(f"{text}; restore the whole cloud")
    _refuse_other_release(live, schema, _revision(scratch, schema))


def _refuse_other_release(live: Ask, schema: str, stored: str) -> None:
    """Raise RunError if the schema in use has a revision, and it is not this one."""
    if (current := _revision(live, schema)) and current != stored:
        raise RunError(
            f"the schema {schema} has revision {current} in the cloud and {stored or 'none'} in the backup: they are of"
            " different releases; restore a later backup, or the whole cloud"
        )


def _revision(ask: Ask, schema: str) -> str:
    return revision(ask, schema) if REVISION_TABLE in _tables(ask, schema) else ""


def _count(kind: str, schema: str) -> str:
    column = _NAME_COLUMNS.get(kind, "table_schema")
    return f"SELECT COUNT(*) FROM information_schema.{kind} WHERE {column} = '{schema}'"  # noqa: S608  (plain names)


def _load(socket: Path, login: Path, places: Places) -> Loaded:
    """Write a schema of the scratch server beside that in use, with what says so. Raise RunError if a program fails, or
    if a table has another number of rows then.
    """
    scratch, live = partial(ask_server, socket), partial(_ask_live, login)
    live(f"CREATE SCHEMA {places.staged} {scratch(_CHARACTER_SET.format(schema=places.live)).strip()}")
    live(f"CREATE TABLE {places.staged}.{RESTORE_TABLE} (id TINYINT PRIMARY KEY, result LONGTEXT) ENGINE=InnoDB")
    _copy(socket, login, places)
    tables, rows = _tables(scratch, places.live), 0
    for table in tables:
        counts = [
            int(ask(f"SELECT COUNT(*) FROM {schema}.`{table}`"))  # noqa: S608  (plain names)
            for ask, schema in ((scratch, places.live), (live, places.staged))
        ]
        if counts[0] != counts[1]:
            raise RunError(f"table {table} of {places.live} has {counts[1]} rows in place of {counts[0]}; try again")
        rows += counts[0]
    say(f"{places.live}: {len(tables)} tables with {rows} rows are staged")
    return Loaded(places, tables, rows, _revision(scratch, places.live))


def _copy(socket: Path, login: Path, places: Places) -> None:
    """Have a client write what `mariadb-dump` reads. Raise RunError if one of them fails."""
    options = (
        "--single-transaction",
        "--skip-lock-tables",
        "--skip-add-locks",
        "--skip-disable-keys",
        "--skip-triggers",
        "--hex-blob",
        "--max-allowed-packet=1G",
        "--default-character-set=utf8mb4",
    )
    with (
        Child("mariadb-dump", "--no-defaults", f"--socket={socket}", *options, places.live) as source,
        Child(
            "mariadb",
            f"--defaults-file={login}",
            "--default-character-set=utf8mb4",
            "--max-allowed-packet=1G",
            # It obeys no commands of its own in what it reads.
            "--binary-mode",
            places.staged,
            stdin=source.stdout,
        ) as sink,
    ):
        source.stdout.close()
        statuses = sink.wait(), source.wait()
        for child, status in ((sink, statuses[0]), (source, statuses[1])):
            if status:
                raise RunError(f"the schema {places.live} cannot be copied: {child.name} failed: {child.reason()}")


def change_places(login: Path, loaded: Sequence[Loaded], result: Mapping[str, Any]) -> dict[str, Any]:
    """Rename all tables in use, and then all staged ones, in one statement: clients see the ones or the others. The
    result goes with them. Return it, or that of another run of this restore that came first. Raise RunError if a client
    holds a lock for minutes, or if a schema has another revision by now.
    """
    ask = partial(_ask_live, login)
    every = [each.places for each in loaded]
    text = json.dumps(result).encode().hex()
    for places in every:
        ask(f"REPLACE INTO {places.staged}.{RESTORE_TABLE} VALUES (1, X'{text}')")  # noqa: S608  (plain names)
        ask(f"CREATE SCHEMA IF NOT EXISTS {places.live} {ask(_CHARACTER_SET.format(schema=places.staged)).strip()}")
        ask(f"CREATE SCHEMA IF NOT EXISTS {places.earlier} {ask(_CHARACTER_SET.format(schema=places.live)).strip()}")
        # From tables that a user renamed back.
        ask(f"DROP TABLE IF EXISTS {places.live}.{RESTORE_TABLE}")
    for number in range(1, _LOCK_TRIES + 1):
        # A run that was killed may have left its statement, which the server goes on with.
        if before := _result_of_before(ask, every):
            return before
        for each in loaded:
            _refuse_other_release(ask, each.places.live, each.revision)
        try:
            _rename(login, ", ".join(move for each in loaded for move in _moves(ask, each)))
        except RunError as error:
            if "Lock wait timeout" not in str(error) or number == _LOCK_TRIES:
                raise
            ended = _end_idle_transactions(ask, every)
            say(f"transactions keep tables in use ({number} of {_LOCK_TRIES} tries); {ended} idle ones are ended")
        else:
            break
    return dict(result)


def _end_idle_transactions(ask: Ask, every: Sequence[Places]) -> int:
    """End the connections that opened a transaction in one of the schemas, and have done nothing for as long as a try
    takes. Return their number. Keystone leaves such ones behind, for minutes; a cluster ends all that are in the way.
    """
    schemas = ", ".join(f"'{places.live}'" for places in every)
    connections = ask(_IDLE_TRANSACTIONS.format(seconds=_LOCK_SECONDS, schemas=schemas)).split()
    for connection in connections:
        # It may have ended by itself.
        with suppress(RunError):
            ask(f"KILL CONNECTION {int(connection)}")
    return len(connections)


def _rename(login: Path, moves: str) -> None:
    with Session(f"--defaults-file={login}") as session:
        # In a cluster, other members do not have this limit, and would rename tables that this one does not: there the
        # statement ends transactions in its way.
        if session.ask("SELECT @@wsrep_on") == [["0"]]:
            session.ask(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        session.ask(f"RENAME TABLE {moves}", _RENAME_SECONDS)


def _moves(ask: Ask, loaded: Loaded) -> Iterator[str]:
    """Yield what is renamed. Staged tables are those of the backup: if one is not there, nothing is renamed."""
    places = loaded.places
    moved = [(places.live, table, places.earlier) for table in _tables(ask, places.live)]
    moved += [(places.staged, table, places.live) for table in loaded.tables]
    moved.append((places.staged, RESTORE_TABLE, places.earlier))
    for source, table, target in moved:
        yield f"{source}.`{table}` TO {target}.`{table}`"


def _tables(ask: Ask, schema: str) -> list[str]:
    """Return the names of the tables of a schema. Raise RunError for one that needs quotes: services have none, and
    a forged backup may have one that is a statement.
    """
    names = answer_lines(ask(_TABLES.format(schema=schema)))
    if strange := [name for name in names if not _PLAIN_TABLE.fullmatch(name)]:
        raise RunError(f"the schema {schema} has a table {strange[0]!a}, which no service has; rename or drop it")
    return names


def _ask_live(login: Path, statement: str) -> str:
    """Return what the database of the cloud answers, a line for each row. Raise RunError."""
    options = (f"--defaults-file={login}", "--batch", "--skip-column-names")
    return run_child("mariadb", *options, f"--execute={statement}")


if __name__ == "__main__":
    main(restore_schemas)
