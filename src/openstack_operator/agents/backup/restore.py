"""Restore one database into an empty data directory, and prove that a server can read it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .allocation_rows import allocation_report
from .image_data import ImageRows, image_report, image_rows, stored_images
from .ovn_rows import network_report, network_rows
from .rbd_connections import renew_connections
from .rbd_rows import Row, rbd_reports, rbd_rows
from .repository import Repository, open_repository
from .run import Child, RunError, main, run_child, say, settings
from .schemas import answer_lines

MARK = ".restoring"
"""File in a data directory that is not complete. It is removed last."""
_RESULT = ".restored"
"""File in a data directory: the uid of the restore that filled it, and the result, which its pod may have lost."""
_LOST_AND_FOUND = "lost+found"
_BINLOG_INFO = ("mariadb_backup_binlog_info", "xtrabackup_binlog_info")
_GALERA = ("grastate.dat", "gvwstate.dat", "galera.cache", "mariadb_backup_galera_info", "xtrabackup_galera_info")
"""Files about a cluster of the past: with them, a server would look for its members."""
_SERVER_LOCKS = ("ibdata1", "aria_log_control")
"""Files that a server locks while it runs: those of InnoDB and of Aria."""
_OWN_SCHEMAS = ("information_schema", "performance_schema")
_MAX_SCHEMAS = 50
_START_SECONDS = 600.0
_SCHEMAS = "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name"
_ACCOUNTS = "SELECT COUNT(*) FROM mysql.global_priv"
_CHAIN_TABLES = """SELECT COUNT(*) FROM information_schema.tables
    WHERE table_schema = 'openstack_operator' AND table_name = 'archive'"""
_LEAVE_CHAIN = "DELETE FROM openstack_operator.archive"
"""Statement for a restored database: the archive has its changes until now, and not those from now on."""


@dataclass(frozen=True)
class Proof:
    """Answers of a server about restored data."""

    schemas: Sequence[str]
    images: ImageRows | None
    """Rows of a Glance, if there is one."""
    rbd: Mapping[str, Sequence[Row]]
    """Rows about RBD images, by their use."""
    allocations: Mapping[str, Any] | None
    """Report about Placement and Nova, if both are there."""
    networks: frozenset[str] | None
    """Networks, routers and ports of the one Neutron that uses OVN."""


def restore(config: Path) -> dict[str, Any]:
    """Restore one database. Return `schemas` (at most 50), `bytes` of the stream, `seconds`, `gtid` of the last change,
    and the reports of `images`, `pools`, `allocations` and `networks` if there are any; what an earlier run of the same
    restore returned, without a change, if it filled the directory. Raise RunError: the directory has the mark then, and
    the next run begins again.
    """
    run = settings(config)
    return once(run, lambda: fill(config, partial(prove, run.get("pools", ()))))


def once(run: Mapping[str, Any], work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what `work`, which fills the data directory of a run and leaves the mark, returns; or what it returned
    when it filled the directory for the same restore: a server may have written to it since. Raises what it raises.
    """
    data = Path(run["datadir"])
    path = data / _RESULT
    if path.exists() and not (data / MARK).exists():
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["restore"] == run["restore"]:
            return dict(record["result"])
    result = work()
    path.write_text(json.dumps({"restore": run["restore"], "result": result}), encoding="utf-8")
    # The data before the mark: a power cut in between must not leave half of them without it.
    os.sync()
    (data / MARK).unlink()
    os.sync()
    return result


def fill(config: Path, finish: Callable[[Path, Path], Proof]) -> dict[str, Any]:
    """Fill an empty data directory, and leave the mark. `finish` gets the directory and a private folder, and returns a
    proof. Return as `restore` does. Raise RunError.
    """
    run, began = settings(config), time.monotonic()
    data = Path(run["datadir"])
    refuse_older_server(run["server"], run_child("mariadbd", "--version"))
    clear(data)
    with open_repository(config) as repository:
        images = stored_images(repository, run.get("images", ()))
        size = unpack_stream(repository, run, data)
        run_child("mariadb-backup", "--prepare", f"--target-dir={data}")
        for name in _GALERA:
            (data / name).unlink(missing_ok=True)
        gtid = gtid_of(data)
        if gtid != run["gtid"]:
            raise RunError(f"the data end at change {gtid!r}, the backup at {run['gtid']!r}; restore another backup")
        proof = finish(data, repository.work)
        pools = rbd_reports(proof.rbd, repository, run.get("pools", ()))
        networks: Mapping[str, Any] | None = None
        if proof.networks is not None:
            with missing():
                networks = network_report(proof.networks, repository, run.get("networks", ()))
    return {
        "schemas": list(proof.schemas[:_MAX_SCHEMAS]),
        "bytes": size,
        "seconds": round(time.monotonic() - began, 1),
        "gtid": gtid,
        **({"images": image_report(proof.images, images)} if proof.images else {}),
        **({"pools": pools} if pools else {}),
        **({"allocations": proof.allocations} if proof.allocations else {}),
        **({"networks": networks} if networks else {}),
    }


def refuse_older_server(backup: str, program: str) -> None:
    """Raise RunError if the server's program, by what it says of itself, is of an earlier major version than that of a
    backup: it could not read the data.
    """
    versions = [re.search(r"(?<!\d)(\d{1,3})\.(\d{1,3})\.\d", text) for text in (backup, program)]
    backup_version, server_version = ((int(each[1]), int(each[2])) if each else (0, 0) for each in versions)
    if server_version < backup_version:
        name, server = (".".join(map(str, each)) for each in (backup_version, server_version))
        raise RunError(
            f"the backup is of MariaDB {name}, which {server} cannot read; restore with MariaDB {name} or later"
        )


def clear(data: Path) -> None:
    """Mark an empty data directory, and remove what an earlier try left in it. Raise RunError if there is anything
    else, or if a server uses it.
    """
    entries = [path for path in data.iterdir() if path.name not in (_LOST_AND_FOUND, MARK)]
    mark = data / MARK
    if entries and not mark.exists():
        names = ", ".join(sorted(path.name for path in entries)[:5])
        raise RunError(f"the data directory {data} is not empty ({names}); restore into a new volume")
    refuse_server(data)
    # While the mark is there, all that is beside it counts as left.
    mark.touch()
    os.sync()
    for path in entries:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def refuse_server(data: Path) -> None:
    """Raise RunError if a server uses the files of a data directory."""
    for path in (data / name for name in _SERVER_LOCKS):
        if path.exists():
            # An exclusive lock is granted only for a file that is open for writing; it ends with the file.
            with path.open("r+b") as file:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except (BlockingIOError, PermissionError):
                    raise RunError(
                        f"a server uses this volume ({path} is locked); delete the cloud's MariaDB first"
                    ) from None


def unpack_stream(repository: Repository, run: Mapping[str, Any], data: Path) -> int:
    """Write the files of a snapshot into the data directory; return the bytes of their stream. Raise RunError if
    either program fails.
    """
    name = f"{run['database']}.mbstream"
    size = repository.size(run["snapshot"], name)
    with (
        repository.dump(run["snapshot"], name) as source,
        Child("mbstream", "--extract", f"--directory={data}", stdin=source.stdout) as sink,
    ):
        # Only mbstream has it now: restic learns when that ends.
        source.stdout.close()
        sink_status, status = sink.wait(), source.wait()
        failures: list[str] = []
        if status and not (sink_status and status == -signal.SIGPIPE):
            failures.append(repository.failure(status, source.reason()))
        if sink_status:
            failures.append(f"the files cannot be written to {data}: {sink.reason()}; is the volume large enough?")
        if failures:
            raise RunError("; ".join(failures))
    return size


def gtid_of(data: Path) -> str:
    """Return the identifier of the last change of a backup's files; empty if none was logged."""
    for path in (data / name for name in _BINLOG_INFO):
        if path.exists():
            _, _, gtid = path.read_text(encoding="utf-8").strip().partition("\t")[2].partition("\t")
            return gtid.replace("\n", "")
    return ""


def prove(pools: Sequence[Mapping[str, Any]], data: Path, work: Path) -> Proof:
    """Return what a server finds in the data, which it reads once and leaves in order. Connections to volumes get the
    monitors of `pools`. Raise RunError if it does not start, or knows no accounts.
    """
    socket = work / "proof.sock"
    with Child("mariadbd", *server_options(data, socket, work)) as server:
        await_start(server, socket)
        if int(ask_server(socket, _ACCOUNTS)) < 1:
            raise RunError("the restored data have no accounts (mysql.global_priv); restore another backup")
        schemas = answer_lines(ask_server(socket, _SCHEMAS))
        proof = read_rows([name for name in schemas if name not in _OWN_SCHEMAS], partial(ask_server, socket))
        if int(ask_server(socket, _CHAIN_TABLES)):
            ask_server(socket, _LEAVE_CHAIN)
        if changed := renew_connections(partial(ask_server, socket), pools):
            say(f"{changed} connections to volumes have other monitors")
        server.end()
        if status := server.wait():
            raise RunError(f"the server did not stop in order ({status}): {server.reason()}")
    return proof


def read_rows(schemas: Sequence[str], ask: Callable[[str], str]) -> Proof:
    """Return the rows that reports are about, as far as the server can tell them."""
    images: ImageRows | None = None
    rbd: Mapping[str, Sequence[Row]] = {}
    allocations: Mapping[str, Any] | None = None
    with missing():
        images = image_rows(ask)
    with missing():
        rbd = rbd_rows(ask)
    with missing():
        allocations = allocation_report(ask)
    networks: frozenset[str] | None = None
    with missing():
        networks = network_rows(ask)
    return Proof(schemas, images, rbd, allocations, networks)


@contextmanager
def missing() -> Generator[None]:
    """Go on without rows that cannot be read: another release may have other tables, and no report is worth a
    restore.
    """
    try:
        yield
    except (RunError, ValueError) as error:
        say(f"the report will lack rows: {error}")


def server_options(data: Path, socket: Path, work: Path) -> list[str]:
    """Return the options of a server of the data that is reached at its socket alone, and writes nothing of its own."""
    return [
        f"--datadir={data}",
        f"--socket={socket}",
        f"--pid-file={work / 'proof.pid'}",
        f"--tmpdir={work}",
        "--skip-networking",
        # Nobody else reaches the socket, in a folder of this user, and the passwords are not known here.
        "--skip-grant-tables",
        "--skip-log-bin",
        "--skip-slave-start",
        "--wsrep-on=OFF",
        "--wsrep-provider=none",
    ]


@contextmanager
def served(data: Path, folder: Path) -> Generator[Path]:
    """Yield the socket of a server of the data, which others reach by their files alone. Raise RunError."""
    socket = folder / "server.sock"
    with Child("mariadbd", *server_options(data, socket, folder)) as server:
        await_start(server, socket)
        yield socket
        server.end()
        server.wait()


def await_start(server: Child, socket: Path, login: Sequence[str] = ()) -> None:
    """Wait until a server answers, to these options of a login. Raise RunError if it ends, or takes too long."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        if server.has_ended or time.monotonic() > deadline:
            lines = [line for line in server.lines if "[ERROR]" in line] or list(server.lines)
            raise RunError(f"no server starts with the restored data: {'; '.join(lines[-3:])}")
        if socket.exists():
            try:
                ask_server(socket, "SELECT 1", login)
            except RunError:
                pass
            else:
                return
        time.sleep(0.2)


def ask_server(socket: Path, statement: str, login: Sequence[str] = ()) -> str:
    """Return what a server answers, a line for each row. Raise RunError."""
    options = [*(login or ["--no-defaults"]), f"--socket={socket}", "--batch", "--skip-column-names"]
    # An argument has 128 KiB at most (execve(2)).
    return run_child("mariadb", *options, text=f"{statement.rstrip(';')};\n")


if __name__ == "__main__":
    main(restore)
