"""Put schemas of a backup in the places of those of a cloud that runs, all at once; the data of before stay beside."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .database import login_options
from .replay import fill_and_replay
from .repository import write_private
from .restore import ask_server, fill, prove, served
from .run import Child, RunError, main, run_child, say, settings
from .schemas import RESTORE_TABLE, REVISION_TABLE, revision
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
_LOAD_SECONDS = 6 * 3600.0
_LOCK_SECONDS, _LOCK_TRIES = 10, 30
"""Seconds for which clients wait behind a change of places that waits for a transaction, and tries until it fails."""


@dataclass(frozen=True)
class Places:
    """Names of a schema during a restore."""

    live: str
    staged: str
    """Schema with the data of the backup, until these have their place."""
    earlier: str
    """Schema with the data of before, afterwards."""

    @classmethod
    def of(cls, schema: str, restore: str) -> Places:
        """Return the names for the restore with this uid."""
        tag = "".join(letter for letter in restore.lower() if letter.isalnum())[:_TAG_LENGTH]
        return cls(schema, f"{schema}_staged_{tag}", f"{schema}_before_{tag}")


def restore_schemas(config: Path) -> dict[str, Any]:
    """Restore the `schemas` of run.json in a scratch folder, load them beside those in use, and give all of them their
    places in one statement. Return `places`, each with its `name`, its numbers of `tables` and `rows`, and `earlier`,
    the schema with the data of before; and `gtid`, `changes` and `seconds`. A later run of the same restore changes
    nothing, and returns the same. Raise RunError: the cloud has what it had before.
    """
    run, began = settings(config), time.monotonic()
    folder = Path(run["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    login = folder / "login.cnf"
    write_private(login, login_options(run, config, "client", "admin"))
    every = [Places.of(schema, run["restore"]) for schema in run["schemas"]]
    if (result := _result_of_before(login, every)) is not None:
        return result
    data = Path(run["datadir"])
    data.mkdir(exist_ok=True)
    filled = fill_and_replay(config, run) if run.get("pointInTime") else fill(config, partial(prove, ()))
    with served(data, folder) as socket:
        _refuse_unfit(socket, login, every)
        rows = [_load(socket, login, places) for places in every]
    result = {
        "places": rows,
        "gtid": filled["gtid"],
        "changes": filled.get("changes"),
        "seconds": round(time.monotonic() - began, 1),
    }
    change_places(login, every, result)
    return result


def _result_of_before(login: Path, every: Sequence[Places]) -> dict[str, Any] | None:
    """Return the result of a run that gave all schemas their places; None if there was none."""
    earlier = every[0].earlier
    ask = partial(_ask_live, login)
    if RESTORE_TABLE not in _tables(ask, earlier):
        return None
    text = ask(f"SELECT HEX(result) FROM {earlier}.{RESTORE_TABLE}")  # noqa: S608  (plain names)
    return dict(json.loads(bytes.fromhex(text)))


def _refuse_unfit(socket: Path, login: Path, every: Sequence[Places]) -> None:
    """Raise RunError if a schema is not in the backup, has what does not move with its tables, or is not of the release
    of the one in use.
    """
    scratch, live = partial(ask_server, socket), partial(_ask_live, login)
    for schema in (each.live for each in every):
        if not (tables := _tables(scratch, schema)):
            raise RunError(f"the backup has no schema {schema}; use another backup")
        for ask, where in ((scratch, "backup"), (live, "cloud")):
            if kinds := [kind for kind in _PROGRAM_KINDS if int(ask(_count(kind, schema)))]:
                text = (
                    f"the schema {schema} of the {where} has {' and '.join(kinds)}, which do not move with its tables"
                )
                raise RunError(f"{text}; restore the whole cloud")
        if REVISION_TABLE in tables and REVISION_TABLE in _tables(live, schema):
            revisions = revision(live, schema), revision(scratch, schema)
            if revisions[0] and revisions[0] != revisions[1]:
                raise RunError(
                    f"the schema {schema} has revision {revisions[0]} in the cloud and {revisions[1]} in the backup:"
                    " they are of different releases; restore a later backup, or the whole cloud"
                )


def _count(kind: str, schema: str) -> str:
    column = _NAME_COLUMNS.get(kind, "table_schema")
    return f"SELECT COUNT(*) FROM information_schema.{kind} WHERE {column} = '{schema}'"  # noqa: S608  (plain names)


def _load(socket: Path, login: Path, places: Places) -> dict[str, Any]:
    """Write a schema of the scratch server beside that in use, with what says so; return its row of the result. Raise
    RunError if a program fails, or if it is another one then.
    """
    scratch, live = partial(ask_server, socket), partial(_ask_live, login)
    live(f"DROP SCHEMA IF EXISTS {places.staged}")
    live(f"CREATE SCHEMA {places.staged} {scratch(_CHARACTER_SET.format(schema=places.live)).strip()}")
    live(f"CREATE TABLE {places.staged}.{RESTORE_TABLE} (id TINYINT PRIMARY KEY, result LONGTEXT) ENGINE=InnoDB")
    _copy(socket, login, places)
    tables = _tables(scratch, places.live)
    size = 0
    for table in tables:
        counts = [
            int(ask(f"SELECT COUNT(*) FROM {schema}.`{table}`"))  # noqa: S608  (plain names)
            for ask, schema in ((scratch, places.live), (live, places.staged))
        ]
        if counts[0] != counts[1]:
            raise RunError(f"table {table} of {places.live} has {counts[1]} rows in place of {counts[0]}; try again")
        size += counts[0]
    say(f"{places.live}: {len(tables)} tables with {size} rows are staged")
    return {"name": places.live, "tables": len(tables), "rows": size, "earlier": places.earlier}


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
            places.staged,
            stdin=source.stdout,
        ) as sink,
    ):
        source.stdout.close()
        statuses = sink.wait(), source.wait()
        for child, status in ((sink, statuses[0]), (source, statuses[1])):
            if status:
                raise RunError(f"the schema {places.live} cannot be copied: {child.name} failed: {child.reason()}")


def change_places(login: Path, every: Sequence[Places], result: Mapping[str, Any]) -> None:
    """Rename all tables in use, and then all staged ones, in one statement: clients see the ones or the others. The
    result goes with them. Raise RunError if a client holds a lock for minutes.
    """
    ask = partial(_ask_live, login)
    text = json.dumps(result).encode().hex()
    for places in every:
        ask(f"REPLACE INTO {places.staged}.{RESTORE_TABLE} VALUES (1, X'{text}')")  # noqa: S608  (plain names)
        ask(f"CREATE SCHEMA IF NOT EXISTS {places.live} {ask(_CHARACTER_SET.format(schema=places.staged)).strip()}")
        ask(f"CREATE SCHEMA IF NOT EXISTS {places.earlier} {ask(_CHARACTER_SET.format(schema=places.live)).strip()}")
    for number in range(1, _LOCK_TRIES + 1):
        statement = ", ".join(move for places in every for move in _moves(ask, places))
        try:
            with Session(f"--defaults-file={login}") as session:
                session.ask(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
                session.ask(f"RENAME TABLE {statement}", _LOAD_SECONDS)
            break
        except RunError as error:
            if "Lock wait timeout" not in str(error) or number == _LOCK_TRIES:
                raise
            say(f"a transaction keeps tables in use ({number} of {_LOCK_TRIES} tries)")
    for places in every:
        ask(f"DROP SCHEMA {places.staged}")


def _moves(ask: Callable[[str], str], places: Places) -> Iterator[str]:
    moved = [(places.live, table, places.earlier) for table in _tables(ask, places.live)]
    for table in _tables(ask, places.staged):
        moved.append((places.staged, table, places.earlier if table == RESTORE_TABLE else places.live))
    for source, table, target in moved:
        yield f"{source}.`{table}` TO {target}.`{table}`"


def _tables(ask: Callable[[str], str], schema: str) -> list[str]:
    """Return the names of the tables of a schema. Raise RunError for one that needs quotes: services have none, and
    a forged backup may have one that is a statement.
    """
    names = ask(_TABLES.format(schema=schema)).splitlines()
    if strange := [name for name in names if not _PLAIN_TABLE.fullmatch(name)]:
        raise RunError(f"the schema {schema} has a table {strange[0]!a}, which no service has; rename or drop it")
    return names


def _ask_live(login: Path, statement: str) -> str:
    """Return what the database of the cloud answers, a line for each row. Raise RunError."""
    options = (f"--defaults-file={login}", "--batch", "--skip-column-names")
    return run_child("mariadb", *options, f"--execute={statement}")


if __name__ == "__main__":
    main(restore_schemas)
